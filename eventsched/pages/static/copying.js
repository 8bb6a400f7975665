// Buttons with data-copy put its text into the clipboard. Styles show them only to pages with a script.

const SHOWN = 2000; // ms that a button says so
const said = document.createElement("p"); // for screen readers
said.className = "unseen";
said.setAttribute("role", "status");
document.body.append(said);

async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copiedBySelection(text); // a page without TLS on another host has no clipboard
  }
}

function copiedBySelection(text) {
  const field = document.createElement("textarea");
  field.value = text;
  field.className = "unseen";
  document.body.append(field);
  const before = document.activeElement;
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  before?.focus({ preventScroll: true });
  return done;
}

document.addEventListener("click", async ({ target }) => {
  const button = target.closest?.("button[data-copy]");
  if (!button) return;
  const words = (await copied(button.dataset.copy)) ? "Copied" : "Not copied: the browser forbids it";
  button.textContent = words;
  said.textContent = words;
  setTimeout(() => {
    button.textContent = "Copy";
    said.textContent = "";
  }, SHOWN);
});
