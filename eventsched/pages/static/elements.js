// Makes elements. Text is always text: names from the log are never read as markup.

// An element of a kind. Attributes that are null or false are left out, true ones are empty;
// children are elements or texts.
export function element(kind, attributes = {}, ...children) {
  const made = document.createElement(kind);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === false) continue;
    made.setAttribute(name, value === true ? "" : String(value));
  }
  made.append(...children.filter((child) => child !== null).map((child) =>
    child instanceof Node ? child : document.createTextNode(String(child))));
  return made;
}

// A number with thin spaces between thousands, as the server writes it.
export function count(number) {
  return number.toLocaleString("en").replaceAll(",", "\u202f");
}

// A text in which a line may end between the words of a name such as NodeAffinity.
export function breakable(text) {
  return String(text).split(/(?<=[a-z])(?=[A-Z])/)
    .flatMap((word, place) => (place ? [element("wbr"), word] : [word]));
}

// A table with a header for each column and each row: `rows` has a list of cells for each.
export function table(caption, header, rows, numeric = []) {
  const kinds = header.map((_, place) => (numeric.includes(place) ? "number" : null));
  const titles = header.map((title, place) =>
    element("th", { scope: "col", class: kinds[place] }, title));
  const lines = rows.map((cells) => element("tr", {}, ...cells.map((cell, place) =>
    place === 0
      ? element("th", { scope: "row", class: "words" }, ...breakable(cell))
      : element("td", { class: kinds[place] }, cell))));
  return element("table", {},
    element("caption", {}, caption),
    element("thead", {}, element("tr", {}, ...titles)),
    element("tbody", {}, ...lines));
}
