// SPDX-License-Identifier: Apache-2.0
// Which lessons a reader has been through and which was the last, and which exercises are done: remembered in this browser
// alone, and shown in the menu, in the lists and on the home page.

const READ = "lessons-read", DONE = "exercises-done", LAST = "lesson-last";
const here = {}; // for private windows, which keep nothing

/** Read each time: another tab, or the page to which one goes back, may have added to it. */
function kept(key) {
  let paths = here[key];
  try { paths = JSON.parse(localStorage.getItem(key)) ?? paths; } catch {}
  return new Set(Array.isArray(paths) ? paths : []);
}

function keep(key, paths) {
  here[key] = [...paths];
  try { localStorage.setItem(key, JSON.stringify(here[key])); } catch {}
}

/** The lesson that was opened last: `path` and `name`. */
function last() {
  let last = here[LAST];
  try { last = JSON.parse(localStorage.getItem(LAST)) ?? last; } catch {}
  return typeof last?.path === "string" ? last : null;
}

function keepLast(lesson) {
  here[LAST] = lesson;
  try { localStorage.setItem(LAST, JSON.stringify(lesson)); } catch {}
}

/** Where to go on: the last lesson, or if that has been read, the next in the course's order that has not. */
function further(read) {
  const lesson = last();
  if (!lesson || !read.has(lesson.path)) return lesson && { ...lesson, says: "Continue where you were" };
  const all = [...document.querySelectorAll(".menu__map i")].map((part) => new URL(part.dataset.lesson, location).pathname);
  const from = all.indexOf(lesson.path) + 1;
  const path = [...all.slice(from), ...all.slice(0, from)].find((path) => !read.has(path));
  const link = path && [...document.querySelectorAll(".menu__page")].find((link) => link.pathname === path);
  if (!link) return null; // all have been read
  const [number, title] = [...link.children].map((part) => part.textContent);
  return { path, name: `Lesson ${number}, ${title}`, says: "Next up" };
}

function showFurther(read) {
  const lesson = further(read), away = lesson && lesson.path !== location.pathname;
  const hero = document.querySelector(".home__start");
  if (hero && !document.querySelector(".home__continue") && away) {
    const link = document.createElement("a");
    link.className = "md-button md-button--primary home__continue";
    hero.classList.remove("md-button", "md-button--primary"); // a link, like those next to it
    hero.before(link);
  }
  for (const link of document.querySelectorAll(".menu__continue, .home__continue")) {
    link.hidden = !away;
    if (!away) continue;
    link.href = lesson.path + (lesson.at ? `#${lesson.at}` : "");
    link.textContent = `${lesson.says}: ${lesson.name}`;
  }
  if (hero) hero.hidden = away && lesson.path === hero.pathname; // the same lesson twice
}

function show() {
  const read = kept(READ), done = kept(DONE);
  showFurther(read);
  for (const link of document.querySelectorAll(".menu__page, a.path__lesson, .exercises a")) {
    link.classList.toggle("lesson-read", read.has(link.pathname));
    link.classList.toggle("exercise-done", done.has(link.pathname));
  }
  for (const map of document.querySelectorAll(".menu__map")) {
    const all = [...map.querySelectorAll("i")];
    const is = all.filter((part) => part.classList.toggle("is-read", read.has(new URL(part.dataset.lesson, location).pathname)));
    map.ariaLabel = `${is.length} of ${all.length} lessons read`;
    map.nextElementSibling.textContent = map.ariaLabel;
  }
  for (const button of document.querySelectorAll("button.exercise__done")) {
    const is = done.has(location.pathname);
    button.hidden = false;
    button.setAttribute("aria-pressed", is);
    button.textContent = is ? "✓ Done" : "Mark as done";
  }
  const list = document.querySelector(".exercises");
  if (list) showExercises(list, read, done);
}

/** The list of all exercises: how many are done, and the first that is not among those of lessons that have been read, or
 * of all. */
function showExercises(list, read, done) {
  const rows = [...list.querySelectorAll(".exercises__list li")], links = rows.map((row) => row.firstElementChild);
  const is = links.map((link) => done.has(link.pathname)), count = (all) => all.filter((link) => done.has(link.pathname)).length;
  const known = rows.findIndex((row, i) => !is[i] && read.has(row.querySelector(".exercises__after a").pathname));
  const next = known < 0 ? is.indexOf(false) : known, line = list.querySelector(".exercises__count");
  rows.forEach((row, i) => row.classList.toggle("is-next", i === next && (done.size > 0 || known >= 0)));
  const button = list.querySelector(".exercises__next");
  button.hidden = next < 0;
  if (next >= 0) {
    button.href = links[next].href;
    button.textContent = `${done.size || known >= 0 ? "Next for you" : "Start with"}: ${links[next].textContent}`;
  }
  line.textContent = `${count(links)} of ${links.length} done, as you marked them in this browser.`;
  line.style.setProperty("--done", `${(100 * count(links)) / links.length}%`);
  line.hidden = !count(links);
  for (const chapter of list.querySelectorAll("section")) {
    const all = [...chapter.querySelectorAll(".exercises__link")], n = count(all);
    chapter.querySelector("h2 small").textContent = n ? `${n} of ${all.length} done` : `${all.length} exercises`;
  }
}

document.addEventListener("click", ({target}) => {
  if (!target.closest("button.exercise__done")) return;
  const path = location.pathname, done = kept(DONE);
  if (!done.delete(path)) done.add(path);
  keep(DONE, done);
  show();
});

/** A lesson has been read when its end, the link to what comes next, has been on the screen, and the page for 20 seconds:
 * who only looks through it has not. */
const lesson = document.querySelector(".page-head .lesson");
if (lesson) {
  const name = `${lesson.textContent.replace(/ of \d+/, "")}, ${document.querySelector(".menu__page[aria-current] span:last-child").textContent}`;
  addEventListener("pagehide", () => {
    const begun = [...document.querySelectorAll("article h2[id]")].filter((h2) => h2.getBoundingClientRect().top < innerHeight / 2);
    const at = begun.at(-1)?.id;
    if (at || last()?.path === location.pathname) keepLast({ path: location.pathname, name, at }); // a mere look moves no bookmark
  });
  let seconds = 0, atEnd = false;
  const finish = () => {
    if (seconds < 20 || !atEnd) return;
    watch.disconnect();
    clearInterval(clock);
    keep(READ, kept(READ).add(location.pathname));
    show();
  };
  const watch = new IntersectionObserver((seen) => {
    atEnd ||= seen.some(({ isIntersecting }) => isIntersecting);
    finish();
  });
  const clock = setInterval(() => {
    if (document.hidden) return;
    seconds += 1;
    finish();
  }, 1000);
  watch.observe(document.querySelector(".onward"));
}

show();

// The map stays when a long menu scrolls to its page: what comes below it is whole, menu.css, and so is its ring.
const map = document.querySelector(".md-sidebar--primary .menu__so-far");
if (map) new ResizeObserver(([{ borderBoxSize: [box] }]) => {
  map.closest(".md-sidebar__scrollwrap").style.scrollPaddingTop = `${box.blockSize + 5}px`;
}).observe(map);

addEventListener("pageshow", (e) => e.persisted && show()); // brought back as it was left
