// What was learned about failures.

import { call } from './api.js';
import { el, moment, number, table } from './dom.js';

export class Patterns {
	constructor(store) {
		this.store = store;
		this.list = el('div', {});
		this.node = el('div', {}, el('h1', {}, 'Patterns'), el('p', { class: 'quiet' }, 'What goes with failure, on how many runs, and whether later runs confirm it.'), this.list);
	}

	async load() {
		const patterns = await call('learn.patterns');

		this.list.replaceChildren(patterns.length === 0 ? el('p', { class: 'quiet' }, 'Nothing was learned yet: that takes some runs of a job, and failures among them.')
			: table('Patterns', ['state', 'pattern', { text: 'runs', class: 'n' }, 'since'], patterns.map((p) => [el('span', { class: `badge ${p.state ?? ''}` }, p.state ?? 'seen'),
				p.description ?? p.name, number(p.runs, 0), moment(p.since)])));
	}

	onEvent(topic) {
		if (topic === 'learn.pattern')
			this.load().catch(this.store.onFailure);
	}

	onSearch(text) {
		for (const row of this.node.querySelectorAll('tbody tr'))
			row.hidden = text !== '' && !row.textContent.toLowerCase().includes(text);
	}

	destroy() {}
}
