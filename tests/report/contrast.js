// All visible text whose contrast to what is behind it is below WCAG's AA: 4.5, or 3 for large letters.
() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });

  /** Paint colours one over the other and look at the result. */
  function painted(colours) {
    for (const colour of ["#fff", ...colours]) {
      canvas.fillStyle = colour;
      canvas.fillRect(0, 0, 1, 1);
    }
    return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
  }

  function luminance(rgb) {
    const [r, g, b] = rgb.map((value) => value / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  }

  function contrast(element) {
    const behind = [];
    for (let at = element; at; at = at.parentElement) behind.unshift(getComputedStyle(at).backgroundColor);
    const style = getComputedStyle(element);
    const ink = element.closest("svg") ? style.fill : style.color;
    const [dark, light] = [painted(behind), painted([...behind, ink])].map(luminance).sort((a, b) => a - b);
    return (light + 0.05) / (dark + 0.05);
  }

  function needed(element) {
    const { fontSize, fontWeight } = getComputedStyle(element);
    const points = 0.75 * parseFloat(fontSize);
    return points >= 18 || (points >= 14 && Number(fontWeight) >= 700) ? 3 : 4.5;
  }

  const says = (element) => [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
  return [...document.body.querySelectorAll("*")]
    .filter((element) => says(element) && element.checkVisibility() && !element.matches("script, desc, title, :disabled"))
    .map((element) => [contrast(element), needed(element), element.outerHTML.slice(0, 120)])
    .filter(([found, wanted]) => found < wanted);
};
