"use strict";
(() => {
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  tip.setAttribute("role", "status");
  document.body.append(tip);

  const show = (event, text) => {
    tip.hidden = !text;
    if (!text) return;
    tip.textContent = text;
    const x = Math.min(event.clientX + 14, window.innerWidth - tip.offsetWidth - 8);
    const y = event.clientY + 18 + tip.offsetHeight > window.innerHeight ? event.clientY - tip.offsetHeight - 10 : event.clientY + 18;
    tip.style.left = `${Math.max(4, x)}px`;
    tip.style.top = `${y}px`;
  };

  const meanings = (figure) => {
    const found = new Map();
    for (const one of figure.querySelectorAll("[data-letter]")) found.set(one.dataset.letter, one.querySelector("span").textContent);
    return found;
  };

  for (const svg of document.querySelectorAll("svg.cells")) {
    const holder = svg.closest("details.slots") || svg.closest("figure");
    const own = [...holder.querySelectorAll(".grid-letters")].find((table) => table.closest("details.slots") === svg.closest("details.slots"));
    if (!own) continue;
    const rows = [...own.tBodies[0].rows].map((row) => ({
      ranks: row.cells[0].textContent.trim(),
      side: row.cells[1].textContent,
      cells: [...row.querySelectorAll("code span")].map((one) => one.textContent).join(""),
    }));
    const steps = own.dataset.steps.split(" ");
    const words = meanings(holder);
    const { left, cell, top, strip, row } = svg.dataset;
    svg.addEventListener("pointermove", (event) => {
      const scale = svg.viewBox.baseVal.width / svg.getBoundingClientRect().width;
      const x = (event.clientX - svg.getBoundingClientRect().left) * scale - left;
      const y = (event.clientY - svg.getBoundingClientRect().top) * scale - top;
      const column = Math.floor(x / cell);
      const nth = Math.floor((y % strip) / row);
      const at = y < 0 || nth > 1 ? undefined : rows[2 * Math.floor(y / strip) + nth];
      const letter = at && x >= 0 ? at.cells[column] : undefined;
      if (!letter) return show(event, "");
      const told = letter === " " ? "no record" : words.get(letter) || letter;
      show(event, `${at.ranks}, ${at.side}, step ${steps[column]}: ${told}`);
    });
    svg.addEventListener("pointerleave", (event) => show(event, ""));
  }

  for (const shape of document.querySelectorAll("svg.drawing path > title")) {
    const text = shape.textContent;
    const path = shape.parentNode;
    path.addEventListener("pointermove", (event) => show(event, text));
    path.addEventListener("pointerleave", (event) => show(event, ""));
  }

  for (const svg of document.querySelectorAll("svg.cells, svg.zoomed")) {
    const scroll = svg.parentNode;
    const bar = document.createElement("div");
    bar.className = "zoom";
    let factor = 1;
    const natural = Number(svg.getAttribute("width"));
    const button = (text, label, change) => {
      const one = document.createElement("button");
      one.type = "button";
      one.textContent = text;
      one.setAttribute("aria-label", label);
      one.addEventListener("click", () => {
        factor = Math.min(8, Math.max(1, change(factor)));
        svg.style.maxWidth = factor === 1 ? "" : "none";
        svg.style.width = factor === 1 ? "" : `${Math.min(natural, scroll.clientWidth) * factor}px`;
      });
      bar.append(one);
    };
    const name = svg.querySelector("title").textContent;
    button("−", `Smaller: ${name}`, (now) => now / 1.5);
    button("+", `Larger: ${name}`, (now) => now * 1.5);
    scroll.before(bar);
  }
})();
