// Light or dark: as the system has it, until the button says otherwise.

const dark = matchMedia("(prefers-color-scheme: dark)");
function useTheme(name) {
  document.documentElement.dataset.theme = name;
  document.getElementById("theme").textContent = name === "dark" ? "Light" : "Dark";
}
useTheme(dark.matches ? "dark" : "light");
dark.addEventListener("change", () => useTheme(dark.matches ? "dark" : "light"));
document.getElementById("theme").addEventListener("click", () =>
  useTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
