// What the theme leaves undone for keyboards and screen readers.
document.addEventListener("DOMContentLoaded", () => {
  const sidebar = document.querySelector(".bd-sidebar-primary");
  sidebar?.setAttribute("role", "navigation");
  sidebar?.setAttribute("aria-label", "Book");
  // Its visible text names the button already, and says more than the label does.
  document.querySelectorAll(".search-button-field").forEach((button) => button.removeAttribute("aria-label"));
  // A box that scrolls can be reached and scrolled by keyboard.
  document.querySelectorAll(".sb-figure, .sb-static, .sb-rows, .pst-scrollable-table-container, div.highlight pre, .math").forEach((box) => {
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
  });
});
