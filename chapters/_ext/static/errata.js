// Fills the report on the errata page with what the address says about the page it is about.
document.addEventListener("DOMContentLoaded", () => {
  const report = document.getElementById("sb-report");
  if (!report) return;
  const asked = new URLSearchParams(location.search);
  for (const name of ["page", "version"]) {
    if (asked.get(name)) report.value = report.value.replace(new RegExp(`^(${name}:).*$`, "im"), (_, key) => `${key} ${asked.get(name)}`);
  }
  const copy = document.getElementById("sb-copy");
  copy.hidden = false;
  copy.addEventListener("click", async () => {
    report.select();
    await navigator.clipboard?.writeText(report.value);
    document.getElementById("sb-copied").textContent = "Copied.";
  });
});
