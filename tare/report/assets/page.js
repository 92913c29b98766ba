"use strict";
(() => {
  const root = document.documentElement;
  const remembered = {
    get() { try { return localStorage.getItem("tare-theme"); } catch { return null; } },
    set(theme) { try { localStorage.setItem("tare-theme", theme); } catch { /* a page may be denied storage */ } },
  };
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const button = document.getElementById("theme");
  const theme = () => root.dataset.theme || (dark.matches ? "dark" : "light");
  const label = () => {
    button.title = theme() === "dark" ? "Light theme" : "Dark theme";
    button.setAttribute("aria-label", button.title);
  };
  const chosen = remembered.get();
  if (chosen === "dark" || chosen === "light") root.dataset.theme = chosen;
  button.hidden = false;
  button.addEventListener("click", () => {
    root.dataset.theme = theme() === "dark" ? "light" : "dark";
    remembered.set(root.dataset.theme);
    label();
  });
  dark.addEventListener("change", label);
  label();

  const key = (row, column) => {
    const cell = row.cells[column];
    const text = cell.dataset.k ?? cell.textContent;
    return text === "" ? null : "s" in cell.dataset || Number.isNaN(Number(text)) ? text : Number(text);
  };
  const compare = (a, b) =>
    typeof a === typeof b
      ? typeof a === "number" ? a - b : a.localeCompare(b, undefined, { numeric: true })
      : typeof a === "number" ? -1 : 1;
  for (const table of document.querySelectorAll("table")) {
    const headers = [...table.tHead.rows[0].cells];
    headers.forEach((header, column) => header.firstElementChild.addEventListener("click", () => {
      const descending = header.getAttribute("aria-sort") === "ascending";
      for (const other of headers) other.removeAttribute("aria-sort");
      header.setAttribute("aria-sort", descending ? "descending" : "ascending");
      const body = table.tBodies[0];
      const keyed = [...body.rows].map((row) => [key(row, column), row]);
      keyed.sort(([a], [b]) =>
        a === null || b === null ? (a === null) - (b === null) : descending ? compare(b, a) : compare(a, b));
      body.append(...keyed.map(([, row]) => row));
    }));
  }

  const tip = document.getElementById("tip");
  const reach = 18;
  let near = null;
  const show = (mark, x, y) => {
    if (near && near !== mark) near.classList.remove("near");
    near = mark;
    tip.hidden = !mark;
    if (!mark) return;
    if (mark.localName === "path" && mark.getAttribute("stroke") === null) mark.classList.add("near");
    tip.textContent = mark.getAttribute("aria-label");
    const box = tip.getBoundingClientRect();
    const top = y - box.height - 14;
    tip.style.left = `${Math.max(6, Math.min(x - box.width / 2, innerWidth - box.width - 6))}px`;
    tip.style.top = `${top < 6 ? y + 18 : top}px`;
  };
  for (const svg of document.querySelectorAll("figure svg")) {
    const marks = [...svg.querySelectorAll("[aria-label]")].filter((mark) => mark !== svg);
    const nearest = (event) => {
      let best = null;
      let least = reach;
      for (const mark of marks) {
        const box = mark.getBoundingClientRect();
        const across = Math.max(box.left - event.clientX, 0, event.clientX - box.right);
        const down = Math.max(box.top - event.clientY, 0, event.clientY - box.bottom);
        const toCentre = Math.hypot(box.left + box.width / 2 - event.clientX, box.top + box.height / 2 - event.clientY);
        const distance = Math.hypot(across, down) + Math.min(toCentre, 400) / 1000 + Math.min(box.width, box.height) / 100;
        if (distance < least) { least = distance; best = mark; }
      }
      show(best, event.clientX, event.clientY);
    };
    svg.addEventListener("pointermove", nearest);
    svg.addEventListener("pointerdown", nearest);
    svg.addEventListener("pointerleave", () => show(null));
  }
  addEventListener("scroll", () => show(null), { passive: true });

  for (const named of document.querySelectorAll("abbr[title], th button[title], .obtained[title], .chip[title]")) {
    named.setAttribute("aria-description", named.title);
    named.dataset.tip = named.title;
    named.removeAttribute("title");
    if (named.localName !== "button") named.tabIndex = 0;
    const tell = () => {
      const box = named.getBoundingClientRect();
      tip.textContent = named.dataset.tip;
      tip.hidden = false;
      const size = tip.getBoundingClientRect();
      const below = box.bottom + 6 + size.height < innerHeight;
      tip.style.left = `${Math.max(6, Math.min(box.left, innerWidth - size.width - 6))}px`;
      tip.style.top = `${below ? box.bottom + 6 : Math.max(6, box.top - size.height - 6)}px`;
    };
    const hush = () => { tip.hidden = true; };
    for (const event of ["pointerenter", "focus"]) named.addEventListener(event, tell);
    for (const event of ["pointerleave", "blur"]) named.addEventListener(event, hush);
  }
  addEventListener("keydown", (event) => { if (event.key === "Escape") show(null); });

  for (const command of document.querySelectorAll(".command")) {
    const code = command.querySelector("code");
    const copy = command.querySelector(".copy");
    const expand = command.querySelector(".expand");
    const select = () => {
      const range = document.createRange();
      range.selectNodeContents(code);
      getSelection().removeAllRanges();
      getSelection().addRange(range);
    };
    copy.hidden = false;
    copy.addEventListener("click", async () => {
      let done = false;
      try { await navigator.clipboard.writeText(code.textContent); done = true; } catch { select(); }
      if (!done) done = document.execCommand("copy");
      copy.textContent = done ? "copied" : "selected";
      setTimeout(() => { copy.textContent = "copy"; }, 1500);
    });
    expand.addEventListener("click", () => {
      const open = command.classList.toggle("open");
      expand.setAttribute("aria-expanded", open);
      expand.textContent = open ? "show less" : "show all";
    });
    new ResizeObserver(() => {
      if (!command.classList.contains("open")) expand.hidden = code.scrollWidth <= code.clientWidth;
    }).observe(code);
  }

  for (const button of document.querySelectorAll(".rest button")) {
    const table = button.closest(".table");
    const fold = (folded) => {
      table.classList.toggle("few", folded);
      button.setAttribute("aria-expanded", !folded);
      button.textContent = folded ? "show all" : "show less";
    };
    button.hidden = false;
    button.addEventListener("click", () => fold(!table.classList.contains("few")));
    fold(true);
  }

  const places = new Map([...document.querySelectorAll(".places a")].map((link) => [link.hash.slice(1), link]));
  const here = () => {
    let current = null;
    for (const [anchor, link] of places) {
      const part = document.getElementById(anchor);
      if (part && part.getBoundingClientRect().top < innerHeight / 3) current = link;
    }
    if (innerHeight + scrollY >= document.body.scrollHeight - 2) current = [...places.values()].at(-1);
    for (const link of places.values()) {
      if (link === current) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
  };
  if (places.size) {
    addEventListener("scroll", here, { passive: true });
    here();
  }
  const reveal = () => {
    for (let part = document.getElementById(location.hash.slice(1)); part; part = part.parentElement) {
      if (part.localName === "details") part.open = true;
    }
  };
  addEventListener("hashchange", reveal);
  reveal();

  const folded = () => document.querySelectorAll("details:not([open])");
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...folded()];
    for (const details of opened) details.open = true;
  });
  addEventListener("afterprint", () => { for (const details of opened) details.open = false; });
})();
