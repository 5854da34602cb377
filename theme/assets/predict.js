// SPDX-License-Identifier: Apache-2.0
// A question before its answer: the reader picks a choice or types a number, and then sees how far off that was. What he
// or she said is remembered in this browser alone. The page brings question, choices and answer; see render/predict.py.

const KEY = "predictions"; // by page and place on it: what was said
const said = (() => {
  try { return JSON.parse(localStorage.getItem(KEY)) ?? {}; } catch { return {}; }
})();

function keep(name, answer) {
  if (answer === undefined) delete said[name];
  else said[name] = answer;
  try { localStorage.setItem(KEY, JSON.stringify(said)); } catch {} // private windows keep nothing
}

const make = (tag, given = {}, ...inner) => {
  const made = Object.assign(document.createElement(tag), given);
  made.append(...inner);
  return made;
};
const number = (text) => parseFloat(text.replace(/[\s,_]/g, "").replace("−", "-"));

/** How far off a number is, in words: close, a share, or a factor. */
export function judged(told, is, within) {
  const off = Math.abs(told - is), near = parseFloat(within) * (within.endsWith("%") ? Math.abs(is) / 100 : 1);
  if (told === is) return "Exactly.";
  if (off <= near) return "Close enough.";
  const side = told > is ? "too high" : "too low";
  const factor = Math.max(told / is, is / told);
  if (told * is > 0 && factor >= 2) return `Your guess was ${factor < 10 ? factor.toFixed(1) : Math.round(factor)} times ${side}.`;
  return `Your guess was ${is ? `${Math.round((100 * off) / Math.abs(is))}% ` : ""}${side}.`;
}

function begin(box, at) {
  const name = `${location.pathname}#${at}`;
  const { right, unit = "", within } = box.dataset;
  const ask = box.querySelector(".predict__ask"), then = box.querySelector(".predict__then");
  const verdict = make("p", { className: "predict__verdict", role: "status" });
  const again = make("button", { type: "button", className: "predict__again" }, "Ask me again");
  const choices = right === undefined ? [] : [...ask.querySelectorAll(":scope > ol:last-of-type > li")];
  const buttons = choices.map((choice) => {
    const button = make("button", { type: "button" }, make("span", {}, ...choice.childNodes));
    choice.append(button);
    return button;
  });
  const field = make("input", { inputMode: "decimal", autocomplete: "off", required: true, ariaLabel: "Your prediction" });
  const form = make("form", {}, field, unit, make("button", {}, "See"));

  function show(answer) {
    const told = answer !== undefined;
    box.classList.add("predict--answered");
    then.open = true;
    if (choices.length) {
      buttons.forEach((button, i) => {
        button.disabled = true;
        button.className = i === +right ? "is-right" : i === answer ? "is-missed" : "";
      });
      const text = (i) => buttons[i].textContent.trim().replace(/\.$/, "");
      verdict.textContent = !told ? "" : answer === +right ? "Yes, as you said." : `You said “${text(answer)}”; the answer is “${text(+right)}”.`;
    } else {
      field.disabled = form.querySelector("button").disabled = true;
      const shown = then.querySelector("data.claim").textContent;
      if (told) field.value = answer;
      verdict.textContent = told ? `You said ${answer}; the answer is ${shown}. ${judged(number(answer), number(shown), within)}` : "";
    }
  }

  function answered(answer) {
    keep(name, answer);
    show(answer);
  }

  buttons.forEach((button, i) => (button.onclick = () => answered(i)));
  form.onsubmit = (e) => {
    e.preventDefault();
    if (Number.isFinite(number(field.value))) answered(field.value.trim());
    else field.select();
  };
  again.onclick = () => {
    keep(name);
    box.classList.remove("predict--answered");
    then.open = false;
    verdict.textContent = field.value = "";
    for (const part of [...buttons, field, form.querySelector("button")]) Object.assign(part, { disabled: false, className: "" });
    (buttons[0] ?? field).focus();
  };
  then.addEventListener("toggle", () => then.open && !box.matches(".predict--answered") && show());
  if (!choices.length) ask.append(form);
  then.before(verdict);
  then.append(again);
  box.classList.add("predict--ready");
  if (name in said) show(said[name]);
}

document.querySelectorAll(".predict").forEach(begin);
