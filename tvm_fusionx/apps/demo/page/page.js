// The page asks the server and shows what comes, as text only: nothing that comes is ever markup.

const byId = (id) => document.getElementById(id);
const JSON_HEADERS = { "Content-Type": "application/json" };

// Tabs, by mouse and by arrows (WAI-ARIA Authoring Practices).

const tabs = [...document.querySelectorAll('[role="tab"]')];

function choose(chosen, focus = false) {
  for (const tab of tabs) {
    const isChosen = tab === chosen;
    tab.setAttribute("aria-selected", String(isChosen));
    tab.tabIndex = isChosen ? 0 : -1;
    byId(tab.getAttribute("aria-controls")).hidden = !isChosen;
  }
  if (focus) chosen.focus();
}

tabs.forEach((tab, place) => {
  tab.addEventListener("click", () => choose(tab));
  tab.addEventListener("keydown", (event) => {
    const places = { ArrowRight: place + 1, ArrowLeft: place - 1, Home: 0, End: -1 };
    if (!(event.key in places)) return;
    event.preventDefault();
    choose(tabs.at(places[event.key] % tabs.length), true);
  });
});

// What the server says of itself; nothing is asked before the bounds are known.

const most = {};
let mostPictureBytes = Infinity;

const known = fetch("/api/about")
  .then((response) => response.json())
  .then((about) => {
    byId("model").textContent = `Text: ${about.model}.`;
    most.prompt = most.passage = about.most_characters;
    most.question = about.most_question_characters;
    byId("max-tokens").max = about.most_new_tokens;
    mostPictureBytes = about.most_picture_bytes;
  })
  .catch(() => { byId("model").textContent = "The server does not answer."; });

// A stream of events: one line of JSON each.

async function problem(response) {
  const text = await response.text();
  try {
    return JSON.parse(text).error;
  } catch {
    return `The server refused this (${response.status}).`;
  }
}

async function* eventsOf(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let held = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (held + value).split("\n");
    held = lines.pop();
    for (const line of lines) if (line) yield JSON.parse(line);
  }
}

// One form, its status, its stop button: what it asks for runs at most once at a time.

class Asker {
  constructor(form, ask) {
    this.form = form;
    this.ask = ask;
    this.status = form.querySelector(".status");
    this.send = form.querySelector(".main");
    this.stopper = form.querySelector(".stop");
    this.job = null;
    this.abort = null;
    this.isGettingReady = false;
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (!this.abort) this.run();
    });
    this.stopper.addEventListener("click", () => this.stop());
    // From the text that is being written, too.
    form.closest('[role="tabpanel"]').addEventListener("keydown", (event) => {
      if (event.key === "Escape" && this.abort) this.stop();
    });
    form.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
    });
  }

  say(text, isError = false) {
    this.status.textContent = text;
    this.status.classList.toggle("error", isError);
  }

  setBusy(isBusy) {
    // What has the focus and goes would lose it to the page's beginning.
    const moves = document.activeElement === (isBusy ? this.send : this.stopper);
    this.send.disabled = isBusy;
    this.stopper.disabled = !isBusy;
    if (moves) (isBusy ? this.stopper : this.send).focus();
  }

  async run() {
    this.abort = new AbortController();
    this.setBusy(true);
    this.say("Asking.");
    let done = () => {};
    try {
      await known;
      const { path, headers, body, show, ...more } = this.ask();
      done = more.done ?? done;
      const response = await fetch(path, {
        method: "POST", headers, body, signal: this.abort.signal,
      });
      if (!response.ok) throw new Error(await problem(response));
      let last = null;
      for await (const event of eventsOf(response)) {
        last = event;
        this.take(event);
        show(event);
      }
      if (!["end", "stopped", "error"].includes(last?.event)) throw new Error("The server went away.");
    } catch (error) {
      if (error.name === "AbortError") this.say("Stopped.");
      else this.say(error instanceof TypeError ? "The server does not answer." : error.message, true);
    } finally {
      // However it ended: refused, too.
      done();
      this.job = null;
      this.abort = null;
      this.isGettingReady = false;
      this.setBusy(false);
    }
  }

  take(event) {
    this.isGettingReady = event.event === "stage";
    if (event.event === "begin") this.job = event.job;
    else if (event.event === "waiting") this.say(`Waiting: ${event.before} before you.`);
    else if (event.event === "stage") this.say(`Getting ready: ${event.text}`);
    else if (event.event === "reading") this.say("Working.");
    else if (event.event === "stopped") this.say("Stopped.");
    else if (event.event === "error") this.say(event.text, true);
  }

  async stop() {
    if (!this.job) return this.abort?.abort();
    try {
      await fetch("/api/stop", {
        method: "POST", headers: JSON_HEADERS, body: JSON.stringify({ job: this.job }),
      });
    } catch {
      this.abort?.abort();
    }
    // A model that is being compiled hears nothing for minutes: nobody waits for it here.
    if (this.isGettingReady) this.abort?.abort();
  }
}

// What is too long is told before it is sent, and not cut off: who pastes would not see it.

function written(id) {
  const text = byId(id).value;
  // As the server counts: characters, not halves of pairs.
  const count = [...text].length;
  if (count > most[id]) {
    const name = byId(id).labels[0].textContent;
    throw new Error(`${name}: ${count} characters; at most ${most[id]} are taken. Shorten it.`);
  }
  return text;
}

// What grows is followed, as long as its end is in sight.

const NEAR = 40;

function following(box, change) {
  const isAtEnd = box.scrollHeight - box.scrollTop - box.clientHeight < NEAR;
  const isInSight = box.getBoundingClientRect().bottom < innerHeight + NEAR;
  change();
  if (isAtEnd) box.scrollTop = box.scrollHeight;
  if (isInSight) box.scrollIntoView({ block: "nearest" });
}

const counted = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;

const duration = (value) =>
  value < 10 ? `${value.toFixed(1)} ms` : value < 1000 ? `${Math.round(value)} ms` : `${(value / 1000).toFixed(1)} s`;

// Text.

const formText = byId("form-text");
new Asker(formText, () => {
  const rate = formText.querySelector(".rate");
  const text = byId("text");
  const isChat = byId("chat").checked;
  const prompt = written("prompt");
  text.replaceChildren();
  rate.textContent = "";
  if (!isChat) {
    const given = document.createElement("span");
    given.className = "given";
    given.textContent = prompt;
    text.append(given);
  }
  text.setAttribute("aria-busy", "true");
  text.scrollIntoView({ block: "nearest" });
  return {
    path: "/api/generate",
    headers: JSON_HEADERS,
    body: JSON.stringify({
      prompt,
      chat: isChat,
      max_tokens: byId("max-tokens").valueAsNumber,
      temperature: byId("temperature").valueAsNumber,
      seed: byId("seed").valueAsNumber,
    }),
    show(event) {
      if (event.event === "text") following(text, () => text.append(event.text));
      if (event.rate) rate.textContent = `${event.rate.toFixed(1)} tokens a second`;
      if (event.event === "end" || (event.event === "stopped" && event.tokens)) {
        const rates = event.rate ? `, ${event.rate.toFixed(1)} a second` : "";
        const told =
          `${event.event === "end" ? "Done" : "Stopped"}: ${counted(event.tokens, "token")}${rates}; ` +
          `first after ${duration(event.first_token_ms)} ` +
          `(${counted(event.prompt_tokens, "token")} of prompt).`;
        // A second line of it moves the text.
        following(text, () => { formText.querySelector(".status").textContent = told; });
      }
    },
    done() {
      text.setAttribute("aria-busy", "false");
    },
  };
});

// Answers.

const formAsk = byId("form-ask");
new Asker(formAsk, () => {
  const [passage, question] = [written("passage"), written("question")];
  byId("answer").textContent = "";
  byId("marked").replaceChildren();
  return {
    path: "/api/ask",
    headers: JSON_HEADERS,
    body: JSON.stringify({ passage, question }),
    show(event) {
      if (event.event !== "end") return;
      byId("answer").textContent = event.text || "No answer was found.";
      const mark = document.createElement("mark");
      mark.textContent = event.text;
      byId("marked").replaceChildren(event.before, ...(event.is_found ? [mark] : []), event.after);
      mark.scrollIntoView({ block: "nearest" });
      formAsk.querySelector(".status").textContent = event.is_found
        ? `Done in ${duration(event.milliseconds)}.`
        : `Done in ${duration(event.milliseconds)}; the passage has no word to answer with.`;
    },
  };
});

// Pictures.

const SVG = "http://www.w3.org/2000/svg";
const formLook = byId("form-look");
const shownPicture = document.querySelector(".picture");
let shownUrl = null;

// Upwards, so that what is a byte too large is not told to have what it may have.
const mebi = (bytes) => `${Math.ceil(bytes / 2 ** 20 * 10) / 10} MiB`;

function item(text) {
  const made = document.createElement("li");
  made.textContent = text;
  return made;
}

// What the browser cannot show is told by the server.
byId("shown").addEventListener("error", () => { shownPicture.hidden = true; });

new Asker(formLook, () => {
  const file = byId("picture").files[0];
  const boxes = byId("boxes");
  boxes.replaceChildren();
  byId("found").replaceChildren();
  shownPicture.hidden = true;
  if (!byId("picture").accept.split(",").includes(file.type))
    throw new Error("This is no picture of PNG, JPEG or WebP. Choose another.");
  if (file.size > mostPictureBytes)
    throw new Error(`The picture has ${mebi(file.size)}; at most ${mebi(mostPictureBytes)} are taken.`);
  const task = formLook.elements.task.value;
  if (shownUrl) URL.revokeObjectURL(shownUrl);
  shownUrl = URL.createObjectURL(file);
  byId("shown").src = shownUrl;
  shownPicture.hidden = false;
  return {
    path: `/api/pictures/${task}`,
    headers: { "Content-Type": file.type },
    body: file,
    show(event) {
      if (event.event !== "end") return;
      boxes.setAttribute("viewBox", `0 0 ${event.width} ${event.height}`);
      for (const box of event.boxes ?? []) {
        const rect = document.createElementNS(SVG, "rect");
        rect.setAttribute("x", box.left);
        rect.setAttribute("y", box.top);
        rect.setAttribute("width", box.right - box.left);
        rect.setAttribute("height", box.bottom - box.top);
        boxes.append(rect);
      }
      const rows = event.boxes
        ? event.boxes.map((box) => item(box.text || "A line that cannot be read"))
        : event.labels.map((label) => item(
            `Class ${label.class} of ImageNet; ${(100 * label.probability).toFixed(1)} %`));
      byId("found").replaceChildren(...rows);
      formLook.querySelector(".status").textContent =
        `Done in ${duration(event.milliseconds)}: ` +
        (event.boxes ? `${counted(rows.length, "line")} of text.` : "the likeliest classes.");
    },
  };
});
