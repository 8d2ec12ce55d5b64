// What both pages need: elements without markup, data from the server or from scripts beside the page, events.
"use strict";

const twoclocks = {
  known: {}, // data of a static copy, by address

  // An element; strings become text nodes, so no name is ever read as markup.
  make(tag, attributes = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  },

  async load(address) {
    if (address in twoclocks.known) return twoclocks.known[address];
    const answer = await fetch(address);
    if (!answer.ok) throw new Error(`${address}: ${answer.status}`);
    return answer.json();
  },

  // Calls handlers by kind of event. A browser connects again by itself and says which event it saw last.
  listen(after, run, handlers) {
    const says = document.getElementById("connection");
    if (Object.keys(twoclocks.known).length) {
      says.textContent = "· as it was when this page was written";
      return;
    }
    const source = new EventSource(`events?after=${after}${run ? `&run=${run}` : ""}`);
    source.addEventListener("open", () => { says.textContent = "· live"; });
    source.addEventListener("error", () => { says.textContent = "· connection lost; trying again"; });
    for (const [kind, handle] of Object.entries(handlers)) {
      source.addEventListener(kind, (event) => handle(JSON.parse(event.data)));
    }
  },

  count(number) {
    return number === null || number === undefined ? "" : number.toLocaleString("en");
  },

  // A number of a curve with three digits.
  value(number) {
    if (number === null || number === undefined) return "–";
    return Math.abs(number) >= 1000 ? twoclocks.count(Math.round(number)) : String(Number(number.toPrecision(3)));
  },

  duration(seconds) {
    if (seconds === null || seconds === undefined) return "";
    if (seconds < 60) return `${Math.round(seconds)} s`;
    const minutes = Math.round(seconds / 60);
    return minutes < 60 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
  },

  // Runs a function soon, once, however often it is asked for; at least `wait` ms apart.
  throttled(call, wait) {
    let timer = null, last = -Infinity;
    return () => {
      if (timer !== null) return;
      const run = () => { timer = null; last = performance.now(); call(); };
      timer = setTimeout(run, Math.max(0, last + wait - performance.now()));
    };
  },
};
