// `node search.mjs SITE QUERY...` prints as JSON what the search of a built site finds for each query, best page first.
// It runs the theme's own worker, which has the index of the site, as a browser does.
import fs from "fs"
import path from "path"
import vm from "vm"

const [site, ...queries] = process.argv.slice(2)
const folder = path.join(site, "assets/javascripts/workers")
const worker = fs.readdirSync(folder).find(name => /^search.*\.js$/.test(name))
const index = JSON.parse(fs.readFileSync(path.join(site, "search/search_index.json")))

let receive, answer
const scope = { addEventListener: (_, f) => (receive = f), postMessage: data => answer(data), console }
scope.self = scope
vm.runInNewContext(fs.readFileSync(path.join(folder, worker), "utf8"), scope)
const ask = data => new Promise(resolve => { answer = resolve; receive({ data }) })

await ask({ type: 0, data: { ...index, options: {} } })
const found = {}
for (const query of queries) {
  const { items } = (await ask({ type: 2, data: query })).data
  found[query] = items.map(sections => sections.sort((a, b) => b.score - a.score)[0].location)
}
console.log(JSON.stringify(found))
