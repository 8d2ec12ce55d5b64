// Values on hover, films, and what is folded. Without this script the page shows everything: values in tables, the last
// checkpoint of each film, runs that fold.
(() => {
  "use strict";
  const make = (name, parent, text = "") => {
    const found = document.createElement(name);
    found.textContent = text;
    parent.append(found);
    return found;
  };
  const shown = (value) => value === null ? "–" : value.toLocaleString("en", Math.abs(value) < 1e4 ? { maximumSignificantDigits: 4 } : {});

  // Hover: the place nearest to the pointer, and the value of every line there.
  const share = (value, [low, high, log]) => log ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low);
  const nearest = (places, at, axis) => places.reduce((best, place, k) => Math.abs(share(place, axis) - at) < Math.abs(share(places[best], axis) - at) ? k : best, 0);
  const values = (script) => {
    const plot = script.previousElementSibling, svg = plot.querySelector("svg"), panels = JSON.parse(script.textContent);
    const tip = make("div", plot.parentElement);
    tip.className = "tip";
    tip.hidden = true;
    const marks = svg.appendChild(document.createElementNS(svg.namespaceURI, "g"));
    marks.setAttribute("class", "marks");
    const mark = (name, places) => {
      const found = marks.appendChild(document.createElementNS(svg.namespaceURI, name));
      for (const key in places) found.setAttribute(key, places[key]);
    };
    const hide = () => { tip.hidden = true; marks.replaceChildren(); };
    const show = (event) => {
      const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
      for (const panel of panels) {
        const box = document.getElementById(panel.id).getBBox(), at = (point.x - box.x) / box.width;
        if (at < -0.02 || at > 1.02 || point.y < box.y || point.y > box.y + box.height) continue;
        const places = panel.at.map((ones) => nearest(ones, at, panel.x)), x = (k) => box.x + box.width * share(panel.at[k][places[k]], panel.x);
        hide();
        mark("path", { d: `M${x(0)} ${box.y}v${box.height}` });
        tip.replaceChildren();
        make("b", tip, `${panel.on} ${shown(panel.at[0][places[0]])}`);
        for (const [name, colour, k, all] of panel.lines) {
          const value = all[places[k]], row = make("span", tip);
          make("i", row).style.background = colour;
          row.append(` ${name}: ${shown(value)}`);
          if (value !== null) mark("circle", { cx: x(k), cy: box.y + box.height * (1 - share(value, panel.y)), r: 3, fill: colour });
        }
        const room = plot.parentElement.getBoundingClientRect();
        tip.hidden = false;
        const left = event.clientX - room.left + (event.clientX - room.left > room.width / 2 ? -14 - tip.offsetWidth : 14);
        tip.style.left = `${Math.max(0, Math.min(left, room.width - tip.offsetWidth))}px`;
        tip.style.top = `${Math.max(0, event.clientY - room.top - tip.offsetHeight - 14)}px`;
        return;
      }
      hide();
    };
    for (const kind of ["pointermove", "pointerdown"]) svg.addEventListener(kind, show);
    svg.addEventListener("pointerleave", hide);
  };
  document.querySelectorAll("script.values").forEach(values);

  // Films: drawings that differ in a few pieces, unpacked when somebody asks for them.
  const unpacked = async (text) => {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).json();
  };
  const film = (place) => {
    const frame = place.querySelector(".frame"), row = make("div", place), button = make("button", row, "Play"), slider = make("input", row), output = make("output", row);
    row.className = "controls";
    button.type = "button";
    slider.type = "range";
    slider.setAttribute("aria-label", "checkpoint");
    slider.min = 0;
    slider.max = slider.value = place.dataset.steps - 1;
    output.value = `last of ${place.dataset.steps} checkpoints`;
    let film = null, playing = null;
    const stop = () => { clearInterval(playing); playing = null; button.textContent = "Play"; };
    const show = async (index) => {
      film ??= unpacked(place.querySelector("script").textContent);
      const { steps, fixed, changing } = await film;
      slider.value = index;
      frame.innerHTML = fixed.map((piece, k) => piece + (changing[index][k] ?? "")).join("");
      output.value = `step ${steps[index].toLocaleString("en")}`;
    };
    slider.addEventListener("input", () => { stop(); show(+slider.value); });
    button.addEventListener("click", async () => {
      if (playing) return stop();
      if (slider.value === slider.max) await show(0);
      button.textContent = "Stop";
      playing = setInterval(() => +slider.value < +slider.max ? show(+slider.value + 1) : stop(), 250);
    });
  };
  document.querySelectorAll(".film").forEach(film);

  // A link leads into what is folded; a keyboard reaches what scrolls; paper shows all.
  const unfold = () => {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    for (let place = target; place; place = place.parentElement) if (place.tagName === "DETAILS") place.open = true;
    if (target) target.scrollIntoView();
  };
  addEventListener("hashchange", unfold);
  if (location.hash) unfold();
  const scrollers = () => document.querySelectorAll(".scroll, .plot, .frame").forEach((box) => box.scrollWidth > box.clientWidth ? box.setAttribute("tabindex", 0) : box.removeAttribute("tabindex"));
  addEventListener("resize", scrollers);
  document.querySelectorAll("details").forEach((one) => one.addEventListener("toggle", scrollers));
  scrollers();
  let folded = [];
  addEventListener("beforeprint", () => { folded = [...document.querySelectorAll("details:not([open])")]; folded.forEach((one) => { one.open = true; }); });
  addEventListener("afterprint", () => folded.forEach((one) => { one.open = false; }));
})();
