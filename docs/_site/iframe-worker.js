// Search without a server: browsers refuse workers on pages from a disk, so the search runs in a hidden frame there.
// The theme's plugin `offline` writes the index as a script, and loads a file from elsewhere unless one of this name is
// in `extra.polyfills` of mkdocs.yml.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      this.loaded = new Promise(resolve => (frame.onload = resolve)).then(() => frame.contentWindow)
      window.addEventListener("message", event => {
        if (event.source === frame.contentWindow) this.dispatchEvent(new MessageEvent("message", { data: event.data }))
      })
      frame.srcdoc = `<script>postMessage = data => parent.postMessage(data, "*")</script><script src="${url}"></script>`
      document.body.append(frame)
    }
    postMessage(data) {
      this.loaded.then(frame => frame.dispatchEvent(new MessageEvent("message", { data })))
    }
  }
}
