// All ranks of a job over each other, and which of them was first.

import { call } from './api.js';
import { Chart, colour } from './chart.js';
import { badge, el, jobUrl, moment, number, section, size, table } from './dom.js';
import { group, leftOutOf, read } from './series.js';

export class Ranks {
	constructor(store, job, attempt) {
		Object.assign(this, { store, job, attempt: attempt ? Number(attempt) : undefined });
		this.head = el('div', { class: 'answer' });
		this.picture = el('div', {});
		this.list = el('div', {});
		this.node = el('div', {}, this.head, section('All ranks', this.picture), this.list);
	}

	async load() {
		const report = await call('job.report', { job_id: this.job, attempt: this.attempt });
		const t = report.telemetry, finding = t?.finding;

		this.attempt = report.attempt;
		this.head.replaceChildren(...[el('h1', {}, el('a', { href: jobUrl(this.job, this.attempt) }, this.job), el('span', { class: 'quiet' }, ` #${this.attempt} ranks `), badge(report)),
			el('p', { class: 'verdict' }, finding?.reason ?? 'No ranks were recorded, or their samples are no longer kept.'),
			finding?.settled_by ? el('p', {}, finding.settled_by) : null,
			t ? el('p', { class: 'quiet' }, `${number(t.ranks, 0)} of ${number(t.world_size, 0)} ranks with samples, measured by ${t.measure.replace('_', ' ')}`
				+ `${finding?.probability ? `; probability ${number(finding.probability, 3)}` : ''}${finding?.onset ? `; onset ${moment(finding.onset)}` : ''}`) : null].filter(Boolean));
		const answer = await read(this.job, this.attempt, t?.measure === 'gpu_memory' ? 'gpu_memory' : 'rss', 800);
		const lines = group(answer, 'rank').filter((l) => l.name !== 'no rank');
		const named = finding?.rank ?? null;

		for (const line of lines)
			line.colour = named === null ? undefined : line.name === `rank ${named}` ? colour(3) : colour(0);
		this.chart?.destroy();
		this.chart = new Chart({ title: 'Memory of each rank', unit: `MB${leftOutOf(answer)}`, height: 360, format: (v) => (v === null ? 'unknown' : size(v)) });
		this.picture.replaceChildren(this.chart.node);
		this.chart.set(answer.times, lines, (report.anomalies ?? []).filter((a) => a.rank !== undefined && a.rank !== null && a.rank >= 0 && (a.began ?? a.timestamp))
			.map((a) => ({ from: a.began ?? a.timestamp, to: a.ended ?? null, label: `rank ${a.rank}` })), finding?.onset ? [{ time: finding.onset }] : []);
		this.list.replaceChildren(section('Ranks', table('Ranks', ['rank', { text: 'least', class: 'n' }, { text: 'largest', class: 'n' }, { text: 'last', class: 'n' }],
			lines.map((l) => {
				const known = l.mid.filter((v) => v !== null);

				return { attributes: { class: l.name === `rank ${named}` ? 'named' : '' }, cells: [l.name, size(Math.min(...known)), size(Math.max(...known)), size(known.at(-1))] };
			}))));
	}

	onEvent(topic, event) {
		if (event.data?.job_id === this.job && (topic === 'monitor.anomaly' || topic.startsWith('job.')))
			this.load().catch(this.store.onFailure);
	}

	onSearch() {}

	destroy() {
		this.chart?.destroy();
	}
}
