// Texts of charts that leave their chart, and pairs of them that overlap; those that are turned are left out.
() => {
  const cut = [];
  const overlaps = [];
  for (const chart of document.querySelectorAll("svg")) {
    const frame = chart.getBoundingClientRect();
    const words = [...chart.querySelectorAll("text:not([transform])")];
    const boxes = words.map((word) => word.getBoundingClientRect());
    boxes.forEach((box, at) => {
      const said = words[at].textContent;
      if (box.left < frame.left - 1 || box.right > frame.right + 1) cut.push(said);
      if (box.top < frame.top - 1 || box.bottom > frame.bottom + 1) cut.push(said);
      boxes.slice(0, at).forEach((other, before) => {
        const wide = Math.min(box.right, other.right) - Math.max(box.left, other.left);
        const high = Math.min(box.bottom, other.bottom) - Math.max(box.top, other.top);
        if (wide > 1 && high > 4) overlaps.push([words[before].textContent, said]);
      });
    });
  }
  return [cut, overlaps];
}
