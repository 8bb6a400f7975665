// Offers the names of nodes below a field with data-nodes: the first that match what is typed. They are
// those of a decision, the best first. They are asked for when the field is used; without them it takes
// any text.

import { element } from "./elements.js";
import { fetchApi } from "./shell.js";

const OFFERED = 50; // however many nodes there are
const KEPT = 2; // answers: each has all nodes of a decision, and a tab may live for days
const answers = new Map(); // call → what it promises, the oldest first

/** The answer of /decisions/{position}/columns. The newest are kept; one that failed is asked for again. */
export function columnsOf(call) {
  const kept = answers.get(call);
  if (kept) return kept;
  const answer = fetchApi(call).catch((problem) => {
    if (answers.get(call) === answer) answers.delete(call);
    throw problem;
  });
  answers.set(call, answer);
  if (answers.size > KEPT) answers.delete(answers.keys().next().value);
  return answer;
}

/** The first names that have a text, those that begin with it before the others. */
export function matching(all, text) {
  const word = text.trim().toLowerCase();
  const [begin, others] = [[], []];
  for (const name of all) {
    const at = name.toLowerCase().indexOf(word);
    if (at === 0) begin.push(name);
    else if (at > 0 && others.length < OFFERED) others.push(name);
    if (begin.length === OFFERED) break;
  }
  return [...begin, ...others].slice(0, OFFERED);
}

async function offer(field) {
  const all = await columnsOf(field.dataset.nodes).then((columns) => columns.names, () => []);
  const list = field.list ?? listFor(field);
  const offered = matching(all, field.value);
  list.replaceChildren(...offered.map((name) => element("option", { value: name })));
}

function listFor(field) {
  const list = element("datalist", { id: `${field.id}-names` });
  field.after(list);
  field.setAttribute("list", list.id);
  return list;
}

for (const kind of ["focusin", "input"]) {
  document.addEventListener(kind, ({ target }) => {
    if (target.dataset?.nodes) offer(target);
  });
}
