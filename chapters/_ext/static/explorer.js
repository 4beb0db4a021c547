// Wakes the explorers of a page: native controls in front of the engine, which runs in a worker.
// The static view stays as it is until a reader touches a control. State lives in the address as
// ?EXPLORER.CONTROL=TEXT, so that it can be shared. All limits and texts come from the engine.
(() => {
  const here = document.currentScript.src;
  let worker = null;
  const waiting = new Map();
  const figures = new Map();
  const LATE = 250; // ms without a view until a live explorer says that it computes
  // ms after the last view until the address follows: browsers take longer to change it than to
  // show a view, and refuse to change it too often.
  const REST = 300;

  function engine() {
    if (worker) return worker;
    worker = new Worker(new URL("explorer-worker.js", here), { type: "module" });
    worker.onmessage = ({ data }) => {
      if (data.progress) figures.forEach((figure) => figure.progress(data.progress));
      else waiting.get(data.ticket)?.(data);
    };
    worker.onerror = (event) => {
      const failure = event.message || "this browser could not start the engine";
      waiting.forEach((answer) => answer({ failure }));
      worker = null;
    };
    return worker;
  }

  let tickets = 0;
  const ask = (explorer, raw) =>
    new Promise((resolve) => {
      const ticket = ++tickets;
      waiting.set(ticket, (answer) => {
        waiting.delete(ticket);
        resolve(answer);
      });
      engine().postMessage({ explorer, raw, ticket });
    });

  class Explorer {
    constructor(element) {
      this.element = element;
      this.id = element.dataset.explorer;
      this.form = element.querySelector("form");
      this.fields = [...this.form.querySelectorAll("[name]")];
      this.note = element.querySelector(".sb-progress");
      this.busy = false;
      this.pending = false;
      this.form.hidden = false;
      this.form.addEventListener("submit", (event) => event.preventDefault());
      this.form.addEventListener("input", (event) => this.touched(event.target));
      this.form.addEventListener("click", (event) => this.pressed(event.target));
      // Loading starts when a control is reached, before its first change.
      this.form.addEventListener("focusin", () => this.wake(), { once: true });
      this.form.addEventListener("pointerenter", () => this.wake(), { once: true });
      const asked = this.readAddress();
      this.shown = this.raw();
      if (asked) this.refresh();
    }

    wake() {
      if (location.protocol === "file:") {
        this.progress("Open this page over http (make serve): a browser starts no engine from a file.");
        return;
      }
      if (!worker) engine();
    }

    value(field) {
      return field.type === "checkbox" ? (field.checked ? "on" : "off") : field.value.trim();
    }

    set(field, text) {
      if (field.type === "checkbox") field.checked = text === "on";
      else field.value = text;
      const menu = this.form.querySelector(`[data-fills="${field.id}"]`);
      if (menu) menu.value = text; // none is chosen for a reader's own text
      const slider = this.form.querySelector(`[data-slides="${field.id}"]`);
      if (!slider) return;
      const place = JSON.parse(slider.dataset.stops).indexOf(text);
      if (place >= 0) slider.value = place;
      slider.setAttribute("aria-valuetext", text);
    }

    raw() {
      return Object.fromEntries(this.fields.map((field) => [field.name, this.value(field)]));
    }

    touched(target) {
      if (target.dataset.slides) {
        const field = document.getElementById(target.dataset.slides);
        this.set(field, JSON.parse(target.dataset.stops)[target.value]);
      } else if (target.dataset.fills) {
        this.set(document.getElementById(target.dataset.fills), target.value);
      } else {
        this.set(target, this.value(target));
      }
      this.refresh();
    }

    pressed(target) {
      const button = target.closest("button");
      if (!button) return;
      if (button.dataset.step) {
        const field = document.getElementById(button.dataset.for);
        const next = Number(field.value) + Number(button.dataset.step);
        field.value = Math.min(Math.max(next, Number(field.min)), Number(field.max));
        this.refresh();
      } else if (button.dataset.act === "reset") {
        this.fields.forEach((field) => this.set(field, field.dataset.default));
        this.refresh();
      } else if (button.dataset.act === "share") {
        this.share();
      }
    }

    async share() {
      this.writeAddress();
      const address = new URL(location.href);
      address.hash = this.element.id;
      try {
        await navigator.clipboard.writeText(address.href);
        this.progress("Link copied.");
      } catch {
        this.progress(address.href);
      }
    }

    // The latest input wins: while one is computed, only the newest waits.
    async refresh() {
      this.pending = true;
      if (this.busy) return;
      this.busy = true;
      while (this.pending) {
        this.pending = false;
        const raw = this.raw();
        const late = setTimeout(() => this.element.dataset.live && this.progress("Computing …"), LATE);
        const answer = await ask(this.id, raw);
        clearTimeout(late);
        this.show(raw, answer);
      }
      this.busy = false;
    }

    show(raw, { view, failure }) {
      this.fields.forEach((field) => this.complain(field, ""));
      if (failure) return this.progress(`The engine could not start: ${failure}`);
      this.progress("");
      if (view.error) {
        const field = this.fields.find(({ name }) => name === view.error.control);
        if (field) this.complain(field, view.error.message);
        else this.progress(view.error.message);
        return;
      }
      const figure = this.element.querySelector(".sb-figure");
      figure.innerHTML = view.figure;
      figure.setAttribute("aria-label", view.sentence);
      this.element.querySelector(".sb-rows").innerHTML = view.table;
      const sentence = this.element.querySelector(".sb-sentence");
      if (sentence.textContent !== view.sentence) sentence.textContent = view.sentence;
      this.element.dataset.live = String(Number(this.element.dataset.live || 0) + 1);
      this.shown = raw;
      clearTimeout(this.resting);
      this.resting = setTimeout(() => this.writeAddress(), REST);
    }

    complain(field, message) {
      document.getElementById(`${field.id}--error`).textContent = message;
      if (message) field.setAttribute("aria-invalid", "true");
      else field.removeAttribute("aria-invalid");
    }

    progress(text) {
      this.note.textContent = text;
    }

    readAddress() {
      const asked = new URLSearchParams(location.search);
      const mine = this.fields.filter(({ name }) => asked.has(`${this.id}.${name}`));
      mine.forEach((field) => this.set(field, asked.get(`${this.id}.${field.name}`)));
      return mine.length > 0;
    }

    writeAddress() {
      const address = new URL(location.href);
      for (const field of this.fields) {
        const key = `${this.id}.${field.name}`;
        const text = this.shown[field.name];
        if (text === field.dataset.default) address.searchParams.delete(key);
        else address.searchParams.set(key, text);
      }
      history.replaceState(null, "", address);
    }
  }

  document.addEventListener("DOMContentLoaded", () => {
    document.querySelectorAll("[data-explorer]").forEach((element) => {
      const figure = new Explorer(element);
      figures.set(figure.id, figure);
    });
  });
})();
