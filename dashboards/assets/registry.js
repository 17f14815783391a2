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

  // Columns packed by dashboards/packed.py, as typed arrays by name.
  async unpack({ columns, deflate }) {
    const body = await ett.inflate(deflate);
    const kinds = { u1: Uint8Array, u2: Uint16Array, u4: Uint32Array, f8: Float64Array };
    return Object.fromEntries(
      Object.entries(columns).map(([name, [kind, at, length]]) => [name, new kinds[kind](body, at, length)]),
    );
  },

  // The bytes of a compressed block.
  inflate(base64) {
    if (typeof DecompressionStream === "undefined") {
      throw new Error("this browser is too old to unpack the data of this page: it needs DecompressionStream, which browsers have since 2023");
    }
    const stream = new Blob([ett.bytes(base64)]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Response(stream).arrayBuffer();
  },

  // JSON written compressed.
  async inflated(base64) {
    return JSON.parse(new TextDecoder().decode(await ett.inflate(base64)));
  },

  bytes(base64) {
    if (Uint8Array.fromBase64) return Uint8Array.fromBase64(base64);
    const text = atob(base64), bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
    return bytes;
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
