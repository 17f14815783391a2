"use strict";
// Where data files register themselves, and how more of them are loaded on demand. Script tags
// work in a folder opened without a server, where fetch does not.

window.ett = {
  data: new Map(),

  put(name, value) {
    ett.data.set(name, value);
  },

  get(name) {
    return ett.data.get(name);
  },

  load(name) {
    if (ett.data.has(name)) return Promise.resolve(ett.data.get(name));
    return new Promise((resolve, reject) => {
      const script = document.createElement("script");
      script.src = `${name}.js`;
      script.onload = () => resolve(ett.data.get(name));
      script.onerror = () => {
        script.remove();
        reject(new Error(`the file ${name}.js of this site cannot be loaded: is the folder complete?`));
      };
      document.head.append(script);
    });
  },

  // An element with attributes and children; text is always text, never markup.
  element(tag, attributes = {}, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name === "class") node.className = value;
      else if (name in node && typeof value !== "string") node[name] = value;
      else node.setAttribute(name, value);
    }
    node.append(...children.filter((child) => child !== null && child !== undefined));
    return node;
  },
};
