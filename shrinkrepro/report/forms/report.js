"use strict";
(() => {
  const copied = async (button) => {
    // not innerText: it has an empty line for each line that is a box of its own
    const blocks = document.getElementById(button.dataset.copy).querySelectorAll("code");
    const text = [...blocks].map((block) => block.textContent).join("\n");
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const field = document.createElement("textarea");
      field.value = text;
      document.body.append(field);
      field.select();
      document.execCommand("copy");
      field.remove();
    }
    const label = button.textContent;
    button.textContent = "Copied";
    button.classList.add("done");
    setTimeout(() => {
      button.textContent = label;
      button.classList.remove("done");
    }, 1500);
  };
  for (const button of document.querySelectorAll("[data-copy]")) {
    button.addEventListener("click", () => copied(button));
  }

  for (const pane of document.querySelectorAll(".tall")) {
    const line = pane.querySelector(".line.changed") || pane.querySelector(".line.saved, .line.needed");
    if (line) pane.scrollTop = line.offsetTop - pane.offsetTop - pane.clientHeight / 2;
  }

  const range = document.getElementById("step");
  if (!range) return;
  const ranges = (text) => text.split(",").filter(Boolean).map((part) => part.split("-").map(Number));
  const pieces = [...document.querySelectorAll("[data-kept]")].map((element) => [element, ranges(element.dataset.kept)]);
  const frames = [...document.querySelectorAll(".frame")];
  const points = [...document.querySelectorAll(".point")];
  const told = document.getElementById("told");
  const holds = (kept, step) => kept.some(([first, last = first]) => first <= step && step <= last);
  const show = (step) => {
    range.value = step;
    for (const [element, kept] of pieces) element.classList.toggle("gone", !holds(kept, step));
    for (const frame of frames) frame.hidden = Number(frame.dataset.step) !== step;
    for (const point of points) point.classList.toggle("now", Number(point.dataset.step) === step);
    told.textContent = frames[step].dataset.told;
  };

  const play = document.getElementById("play");
  const last = Number(range.max);
  let timer = 0;
  const stop = () => {
    clearInterval(timer);
    timer = 0;
    play.textContent = "Replay";
    play.setAttribute("aria-pressed", "false");
  };
  const go = (step) => {
    stop();
    show(Math.min(last, Math.max(0, step)));
  };
  range.addEventListener("input", () => go(Number(range.value)));
  document.getElementById("back").addEventListener("click", () => go(Number(range.value) - 1));
  document.getElementById("on").addEventListener("click", () => go(Number(range.value) + 1));
  play.addEventListener("click", () => {
    if (timer) return stop();
    if (Number(range.value) === last) show(0);
    play.textContent = "Pause";
    play.setAttribute("aria-pressed", "true");
    timer = setInterval(() => {
      show(Number(range.value) + 1);
      if (Number(range.value) === last) stop();
    }, 800);
  });
  show(last);
})();
