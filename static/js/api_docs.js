// The page to read and try the API: Swagger UI, with the signed-in user's CSRF token.
(() => {
  "use strict";
  const root = document.documentElement;
  const place = document.getElementById("api-docs");
  const system = matchMedia("(prefers-color-scheme: dark)");

  // Swagger UI has a dark theme of its own, under this class.
  const follow = () => {
    const theme = root.dataset.theme;
    root.classList.toggle("dark-mode", theme ? theme === "dark" : system.matches);
  };
  follow();
  system.addEventListener("change", follow);
  new MutationObserver(follow).observe(root, { attributeFilter: ["data-theme"] });

  window.SwaggerUIBundle({
    url: place.dataset.schema,
    domNode: place,
    deepLinking: true,
    docExpansion: "list",
    defaultModelsExpandDepth: -1,
    displayRequestDuration: true,
    // No request to another host: the badge of the online validator would be one.
    validatorUrl: null,
    // It brings a <main> and an <h1>, and the page has its own; it puts links into buttons that do the same.
    onComplete: () => {
      place.querySelectorAll("main").forEach((one) => one.setAttribute("role", "group"));
      place.querySelectorAll("h1").forEach((one) => one.setAttribute("aria-level", "2"));
      place.querySelectorAll("button a[href]").forEach((one) => one.removeAttribute("href"));
    },
    requestInterceptor: (request) => {
      const isOurs = new URL(request.url, location.href).origin === location.origin;
      if (isOurs && request.method !== "GET") {
        request.headers["X-CSRFToken"] = place.dataset.csrf;
      }
      return request;
    },
  });
})();
