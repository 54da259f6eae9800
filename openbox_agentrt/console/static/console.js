// Pages work without this. With it, they follow what happens: the stream says that something has changed, the page is
// asked for again, and parts of it are replaced by their ids. What a person reads or writes in is left alone.
'use strict';

const page = location.pathname + location.search;
const live = document.getElementById('live');
const cut = document.getElementById('cut');
const news = document.getElementById('news');
let cutSince = null;
let retryIn = 0;

// Words, as the server says them.

function age(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  for (const [size, unit] of [[86400, 'd'], [3600, 'h'], [60, 'min']]) {
    if (whole >= size) return `${Math.floor(whole / size)} ${unit}`;
  }
  return `${whole} s`;
}

function left(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  for (const [size, unit, below, smaller] of [[86400, 'd', 3600, 'h'], [3600, 'h', 60, 'min'], [60, 'min', 1, 's']]) {
    if (whole >= size) {
      const rest = Math.floor((whole % size) / below);
      return `${Math.floor(whole / size)} ${unit}` + (rest ? ` ${rest} ${smaller}` : '');
    }
  }
  return `${whole} s`;
}

const secondsSince = (element, name) => (Date.now() - Date.parse(element.getAttribute(name))) / 1000;

function say(box, kind, glyph, head, body) {
  const said = document.createElement('div');
  said.className = `say ${kind}`;
  said.setAttribute('role', 'alert');
  said.innerHTML = '<svg class="i" aria-hidden="true"><use/></svg><strong></strong><p class="small"></p>';
  said.querySelector('use').setAttribute('href', `#i-${glyph}`);
  said.querySelector('strong').textContent = head;
  said.querySelector('p').textContent = body;
  box.replaceChildren(said);
}

// Time goes on between two events.

function tick() {
  for (const time of document.querySelectorAll('time[data-ago]')) {
    time.textContent = `${age(secondsSince(time, 'datetime'))} ago`;
  }
  for (const mark of document.querySelectorAll('.left[data-until]')) {
    const seconds = -secondsSince(mark, 'data-until');
    mark.classList.toggle('soon', seconds < 300);
    if (cutSince === null) mark.querySelector('span').textContent = `${left(seconds)} left`;
    if (seconds <= 0) expire(mark);
  }
  if (cutSince !== null) showCut();
}

function expire(mark) {
  const card = mark.closest('.ask');
  const form = card && card.querySelector('form.decide');
  if (!form || form.dataset.over) return;
  over(form, `Expired at ${mark.dataset.until.slice(11, 19)}`);
  const box = document.createElement('div');
  form.before(box);
  say(box, '', 'wait', 'Expired while you were reading', 'Nobody answered in time, so it did not run. The agent was told, and may ask again.');
}

function over(form, word) {
  form.dataset.over = 'yes';
  for (const button of form.querySelectorAll('button')) button.disabled = true;
  form.querySelector('button[value="approve"]').textContent = word;
}

// Replacing parts of the page.

const busy = (element) => element.contains(document.activeElement) && document.activeElement.matches('textarea, input, select, button, summary');

function renew(fresh) {
  document.title = fresh.title;
  for (const old of document.querySelectorAll('[data-live]')) {
    if (!fresh.getElementById(old.id) && !old.closest('[data-asks]') && !busy(old)) old.remove();
  }
  for (const element of fresh.querySelectorAll('[data-live]')) {
    const old = document.getElementById(element.id);
    if (!old) insert(element);
    else if (old.outerHTML !== element.outerHTML && !busy(old)) old.replaceWith(document.importNode(element, true));
  }
  const asks = document.querySelector('[data-asks]');
  const freshAsks = fresh.querySelector('[data-asks]');
  if (asks && freshAsks) renewAsks(asks, freshAsks);
  tick();
}

// A part that was not there before comes after the one that it follows.
function insert(element) {
  if (element.closest('[data-asks]')) return;
  const before = element.previousElementSibling && document.getElementById(element.previousElementSibling.id);
  if (before) before.after(document.importNode(element, true));
}

function renewAsks(asks, fresh) {
  for (const old of [...asks.children]) {
    if (fresh.querySelector(`#${CSS.escape(old.id)}`)) continue;
    if (old.open || old.contains(document.activeElement)) settled(old);
    else old.remove();
  }
  let added = 0;
  for (const element of [...fresh.children]) {
    if (document.getElementById(element.id)) continue;
    // Nothing that is open is shut by what comes.
    if (asks.querySelector('.ask[open]')) element.removeAttribute('open');
    asks.append(document.adoptNode(element));
    added += 1;
  }
  if (added) news.textContent = added === 1 ? 'One more call waits for you' : `${added} more calls wait for you`;
}

// Decided elsewhere while somebody reads it: say so in its place.
async function settled(card) {
  const form = card.querySelector('form.decide');
  if (!form || form.dataset.over) return;
  over(form, 'Decided');
  const answer = await fetch(`/approvals/${card.id.slice(2)}?said=1`);
  if (!answer.ok) return;
  const found = new DOMParser().parseFromString(await answer.text(), 'text/html').querySelector('#said .say');
  if (found) form.before(document.adoptNode(found));
}

let asked = false;
let again = false;

async function refresh() {
  if (asked) { again = true; return; }
  asked = true;
  const began = Date.now();
  try {
    const answer = await fetch(page, { headers: { accept: 'text/html' } });
    if (answer.status === 401) location.reload();
    if (answer.ok) renew(new DOMParser().parseFromString(await answer.text(), 'text/html'));
  } catch {
    // The console is gone: the stream says so.
  }
  asked = false;
  // Where much happens, a third of the time goes into following it at most.
  if (again) { again = false; setTimeout(refresh, Math.max(100, 2 * (Date.now() - began))); }
}

// The stream.

function showCut() {
  const at = new Date(cutSince).toISOString().slice(11, 19);
  const old = age((Date.now() - cutSince) / 1000);
  document.getElementById('live-text').textContent = `Not live since ${at}`;
  say(cut, 'say-bad', 'cut', `Not live since ${at}`, `The connection to the console is cut. What you see is ${old} old. Trying again; decisions are off until then.`);
}

function lost() {
  if (cutSince !== null) return;
  cutSince = Date.now();
  document.body.classList.add('stale');
  live.querySelector('use').setAttribute('href', '#i-cut');
  cut.hidden = false;
  for (const form of document.querySelectorAll('form')) for (const button of form.querySelectorAll('button')) button.disabled = true;
  for (const card of document.querySelectorAll('.ask, .card')) card.classList.add('aged');
  showCut();
}

function found() {
  if (cutSince === null) return;
  cutSince = null;
  document.body.classList.remove('stale');
  live.querySelector('use').setAttribute('href', '#i-live');
  cut.hidden = true;
  cut.replaceChildren();
  for (const form of document.querySelectorAll('form:not([data-over])')) for (const button of form.querySelectorAll('button')) button.disabled = false;
  for (const card of document.querySelectorAll('.aged')) card.classList.remove('aged');
  refresh();
}

// A browser opens six connections to a host and no more, so one tab holds the stream and tells the others. Whichever
// tab is given the lock is that one; when it is closed, or is silent for too long, the next takes its place.

const SILENT = 40000;
const tabs = new BroadcastChannel('openbox-console');
const locks = navigator.locks;
let holds = !locks;
let stream = null;
let lastHeard = Date.now();

function hear(kind) {
  lastHeard = Date.now();
  if (kind === 'lost') lost();
  else if (kind === 'gone') location.reload();
  else {
    found();
    if (kind === 'changed') refresh();
  }
}

function tell(kind) {
  if (locks) tabs.postMessage(kind);
  hear(kind);
}

tabs.onmessage = ({ data }) => {
  if (data !== 'who') hear(data);
  else if (holds && stream) tabs.postMessage(stream.readyState === EventSource.OPEN ? 'beat' : 'lost');
};

function listen() {
  stream = new EventSource('/stream');
  // What came before it was opened is nobody's: all tabs look.
  stream.addEventListener('hello', () => { retryIn = 0; tell('changed'); });
  stream.addEventListener('changed', () => tell('changed'));
  stream.addEventListener('beat', () => tell('beat'));
  stream.onmessage = () => tell('changed');
  stream.onerror = () => {
    tell('lost');
    // A browser does not try again by itself after an answer that is no stream, such as one to a cookie that is too old.
    if (stream.readyState === EventSource.CLOSED) {
      retryIn = Math.min(retryIn + 1000, 5000);
      setTimeout(reconnect, retryIn);
    }
  };
}

async function reconnect() {
  const answer = await fetch(page).catch(() => null);
  if (answer && answer.status === 401) tell('gone');
  else if (holds) listen();
}

function hold(options) {
  const held = locks.request('openbox-console-stream', options, () => {
    if (holds) return undefined;
    holds = true;
    lastHeard = Date.now();
    listen();
    return new Promise(() => {});
  });
  // Another tab found this one silent, and took the stream.
  held.catch(() => {
    holds = false;
    stream.close();
    hold({});
  });
}

function watch() {
  const silent = Date.now() - lastHeard;
  if (silent < SILENT) return;
  lost();
  lastHeard = Date.now();
  if (holds) {
    // A connection that died without a word.
    stream.close();
    listen();
  } else hold({ steal: true });
}

// A long value is loaded when it is opened.
document.addEventListener('toggle', async (event) => {
  const fold = event.target;
  if (!fold.open || !fold.dataset || !fold.dataset.load) return;
  const answer = await fetch(fold.dataset.load);
  if (!answer.ok) return;
  const whole = new DOMParser().parseFromString(await answer.text(), 'text/html').getElementById('whole');
  if (whole) fold.querySelector('pre').replaceChildren(...document.adoptNode(whole).childNodes);
  delete fold.dataset.load;
}, true);

// One answer to one click.
document.addEventListener('submit', (event) => {
  if (event.target.dataset.sent) event.preventDefault();
  event.target.dataset.sent = 'yes';
});

setInterval(tick, 1000);
setInterval(watch, 5000);
if (locks) {
  hold({});
  tabs.postMessage('who');
} else listen();
