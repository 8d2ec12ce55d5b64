// One panel of curves as SVG: log step axis, both clocks as areas, values on hover and by arrow keys.
"use strict";
twoclocks.Chart = class {
  static MARGIN = { left: 46, right: 12, top: 8, bottom: 34 };

  constructor(panel, place) {
    const { make } = twoclocks;
    this.panel = panel;
    this.bands = [];
    this.window = null;
    this.pointed = null; // index of the step whose values are shown
    this.figure = make("figure", { class: "chart" });
    this.legend = make("figcaption", {});
    this.frame = make("div", { class: "frame" });
    this.tip = make("output", { class: "tip" });
    this.tip.hidden = true;
    this.svg = this.node("svg", { role: "img", tabindex: "0", height: this.height });
    this.frame.append(this.svg, this.tip);
    this.figure.append(this.legend, this.frame);
    place.append(this.figure);
    this.svg.addEventListener("pointermove", (event) => this.point(this.nearest(event)));
    this.svg.addEventListener("pointerleave", () => this.point(null));
    this.svg.addEventListener("blur", () => this.point(null));
    this.svg.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.draw()).observe(this.frame);
  }

  get height() { return this.panel.scale === "share" ? 300 : 210; }

  node(tag, attributes = {}, text = "") {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    if (text) element.textContent = text;
    return element;
  }

  // New points at the right end, one value per curve.
  append(step, values) {
    if (step <= 0 || step <= this.panel.steps.at(-1)) return;
    this.panel.steps.push(step);
    for (const curve of this.panel.curves) curve.values.push(values[curve.key] ?? null);
  }

  scales() {
    const { left, right, top, bottom } = this.constructor.MARGIN;
    const width = Math.max(200, this.frame.clientWidth), steps = this.panel.steps;
    const first = steps[0], last = Math.max(steps.at(-1), first * 1.01);
    const [low, high] = this.range();
    const scale = this.panel.scale === "log" ? Math.log : (value) => value;
    this.width = width;
    this.x = (step) => left + (width - left - right) * Math.log(step / first) / Math.log(last / first);
    this.y = (value) => top + (this.height - top - bottom) * (1 - (scale(value) - scale(low)) / (scale(high) - scale(low)));
    this.limits = { first, last, low, high };
  }

  range() {
    if (this.panel.scale === "share") return [-0.02, 1.02];
    const log = this.panel.scale === "log";
    const levels = this.panel.levels.map((level) => level.value);
    const all = [...this.panel.curves.flatMap((curve) => curve.values), ...levels].filter((value) => value !== null && (!log || value > 0));
    if (!all.length) return log ? [0.1, 1] : [0, 1];
    const low = Math.min(...all), high = Math.max(...all);
    if (log) return high > low * 1.01 ? [low / 1.08, high * 1.08] : [low / 2, high * 2];
    const room = 0.06 * (high - low || 1);
    return [low - room, high + room];
  }

  draw() {
    if (!this.panel.steps.length) return;
    this.scales();
    this.svg.setAttribute("width", this.width);
    this.svg.setAttribute("viewBox", `0 0 ${this.width} ${this.height}`);
    this.svg.setAttribute("aria-label", `${this.panel.title}: ${this.words(this.panel.steps.length - 1)}`);
    this.svg.replaceChildren(...this.areas(), ...this.axes(), ...this.levels(), ...this.lines());
    this.drawLegend();
    this.mark = this.node("g", {});
    this.svg.append(this.mark);
    this.point(this.pointed); // stays where it is while the curve grows
  }

  areas() {
    const { top, bottom } = this.constructor.MARGIN, { first, last } = this.limits;
    const area = (from, to, kind) => {
      const [x0, x1] = [this.x(Math.max(from, first)), this.x(Math.min(to ?? last, last))];
      if (x1 < x0) return [];
      return [this.node("rect", { x: x0, y: top, width: Math.max(1.5, x1 - x0), height: this.height - top - bottom, class: `area ${kind}` })];
    };
    const found = this.window ? area(this.window[0], this.window[1], "window") : [];
    return [...found, ...this.bands.filter((band) => band.to !== null).flatMap((band) => area(band.from, band.to, `band ${band.colour}`))];
  }

  axes() {
    const { left, right, bottom } = this.constructor.MARGIN, { first, last, low, high } = this.limits;
    const floor = this.height - bottom, found = [];
    for (const step of this.logTicks(first, last, this.width / 90)) {
      const x = this.x(step);
      found.push(this.node("line", { x1: x, x2: x, y1: 8, y2: floor, class: "grid" }));
      found.push(this.node("text", { x, y: floor + 14, class: "tick middle" }, twoclocks.value(step)));
    }
    const ticks = { share: () => [0, 0.25, 0.5, 0.75, 1], log: () => this.logTicks(low, high, 6), linear: () => this.linearTicks(low, high) };
    for (const value of ticks[this.panel.scale]()) {
      const y = this.y(value);
      found.push(this.node("line", { x1: left, x2: this.width - right, y1: y, y2: y, class: "grid" }));
      found.push(this.node("text", { x: left - 6, y: y + 4, class: "tick end" }, twoclocks.value(value)));
    }
    found.push(this.node("text", { x: (left + this.width - right) / 2, y: this.height - 3, class: "tick middle" }, "training step"));
    return found;
  }

  // 1, 2, 5, 10, … between two numbers; fewer per decade where that would be too many.
  logTicks(low, high, most) {
    for (const digits of [[1, 2, 3, 5], [1, 2, 5], [1, 3], [1]]) {
      const found = [];
      for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power += 1) {
        for (const digit of digits) found.push(Number(`${digit}e${power}`));
      }
      const inside = found.filter((value) => value >= low * 0.999 && value <= high * 1.001);
      if (inside.length <= most) return inside;
    }
    const every = Math.ceil(Math.log10(high / low) / most);
    const first = Math.ceil(Math.log10(low));
    return Array.from({ length: Math.ceil(most) }, (_, k) => 10 ** (first + k * every)).filter((value) => value <= high);
  }

  linearTicks(low, high) {
    const raw = (high - low) / 5, power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((digit) => digit * power).find((one) => one >= raw);
    const first = Math.ceil(low / step);
    return Array.from({ length: 8 }, (_, k) => Number(((first + k) * step).toPrecision(12))).filter((value) => value <= high);
  }

  levels() {
    const { left, right } = this.constructor.MARGIN;
    return this.panel.levels.map((level) => {
      const y = this.y(level.value);
      return this.node("line", { x1: left, x2: this.width - right, y1: y, y2: y, class: `level ${level.colour}` });
    });
  }

  lines() {
    const log = this.panel.scale === "log";
    return this.panel.curves.map((curve) => {
      let path = "", pen = "M";
      curve.values.forEach((value, k) => {
        if (value === null || (log && value <= 0)) { pen = "M"; return; } // a gap
        path += `${pen}${this.x(this.panel.steps[k]).toFixed(1)} ${this.y(value).toFixed(1)}`;
        pen = "L";
      });
      return this.node("path", { d: path, class: `curve ${curve.colour}${curve.dashed ? " dashed" : ""}` });
    });
  }

  // Above the panel, where no curve can run through it.
  drawLegend() {
    const { make, value } = twoclocks;
    const key = (kind, words) => {
      const sample = this.node("svg", { width: 22, height: 10, "aria-hidden": "true" });
      if (kind.startsWith("area")) sample.append(this.node("rect", { x: 2, y: 0, width: 18, height: 10, class: kind }));
      else sample.append(this.node("path", { d: "M0 5L22 5", class: kind }));
      return make("span", { class: "key" }, sample, words);
    };
    const curves = this.panel.curves.map((curve) => key(`curve ${curve.colour}${curve.dashed ? " dashed" : ""}`, curve.label));
    const levels = this.panel.levels.map((level) => key(`level ${level.colour}`, `${level.label} ${value(level.value)}`));
    const bands = this.panel.scale === "share" ? this.bands.map((band) => key(`area band ${band.colour}`, `${band.name} ${band.text}`)) : [];
    this.legend.replaceChildren(make("strong", {}, this.panel.title), ...curves, ...levels, ...bands);
  }

  words(index) {
    const values = this.panel.curves.map((curve) => `${curve.label} ${twoclocks.value(curve.values[index])}`);
    return `step ${twoclocks.count(this.panel.steps[index])}: ${values.join(", ")}`;
  }

  nearest(event) {
    const x = event.clientX - this.svg.getBoundingClientRect().left;
    let best = 0;
    this.panel.steps.forEach((step, k) => {
      if (Math.abs(this.x(step) - x) < Math.abs(this.x(this.panel.steps[best]) - x)) best = k;
    });
    return best;
  }

  key(event) {
    const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!move) return;
    event.preventDefault();
    const last = this.panel.steps.length - 1;
    this.point(Math.min(last, Math.max(0, (this.pointed ?? last - move) + move)));
  }

  // Mark one step and show its values; null: none.
  point(index) {
    this.pointed = index;
    this.tip.hidden = index === null;
    this.mark.replaceChildren();
    if (index === null) return;
    const { top, bottom } = this.constructor.MARGIN, x = this.x(this.panel.steps[index]);
    this.mark.append(this.node("line", { x1: x, x2: x, y1: top, y2: this.height - bottom, class: "pointer" }));
    for (const curve of this.panel.curves) {
      const value = curve.values[index];
      if (value === null || (this.panel.scale === "log" && value <= 0)) continue;
      this.mark.append(this.node("circle", { cx: x, cy: this.y(value), r: 3.5, class: `dot ${curve.colour}` }));
    }
    const { make } = twoclocks;
    const line = (curve) => make("span", { class: curve.colour }, `${curve.label} ${twoclocks.value(curve.values[index])}`);
    this.tip.replaceChildren(make("strong", {}, `step ${twoclocks.count(this.panel.steps[index])}`), ...this.panel.curves.map(line));
    const room = x < this.width / 2;
    this.tip.style.left = room ? `${x + 10}px` : "auto";
    this.tip.style.right = room ? "auto" : `${this.width - x + 10}px`;
  }
};
