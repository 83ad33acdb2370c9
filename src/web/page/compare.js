// Runs beside each other, aligned at their start or at the start of a sheet.

import { call } from './api.js';
import { Chart } from './chart.js';
import { badge, bytes, duration, el, jobUrl, number, section, size, table } from './dom.js';
import { group, leftOutOf, metrics, read } from './series.js';

const MOST = 6;

export class Compare {
	constructor(store, options) {
		this.store = store;
		this.runs = (options.get('runs') ?? '').split(',').filter(Boolean).slice(0, MOST).map((text) => {
			const at = text.lastIndexOf(':');

			return at < 0 ? { job: text } : { job: text.slice(0, at), attempt: Number(text.slice(at + 1)) || undefined };
		});
		this.metric = Object.hasOwn(metrics, options.get('m')) ? options.get('m') : 'rss';
		this.sheet = options.get('sheet') ?? '';
		this.tools = el('div', { class: 'tools' });
		this.figures = el('div', {});
		this.picture = el('div', {});
		this.picker = el('div', {});
		this.node = el('div', { class: 'compare' }, el('h1', {}, 'Compare runs'), this.picker, section('Figures', this.figures), section('Over time', this.tools, this.picture));
	}

	async load() {
		const [attempts, ...reports] = await Promise.all([call('job.attempts', { limit: 300 }),
			...this.runs.map((r) => call('job.report', { job_id: r.job, attempt: r.attempt }))]);

		this.reports = reports;
		this.runs = reports.map((r) => ({ job: r.job_id, attempt: r.attempt }));
		this.showPicker(attempts.attempts);
		this.showTools();
		this.showFigures();
		await this.showChart();
	}

	go(runs) {
		const options = new URLSearchParams({ m: this.metric });

		if (this.sheet)
			options.set('sheet', this.sheet);
		location.hash = `#/compare?runs=${runs.map((r) => encodeURIComponent(`${r.job}:${r.attempt}`)).join(',')}&${options}`;
	}

	showPicker(attempts) {
		const names = attempts.toReversed().map((a) => `${a.job_id}:${a.attempt}`);
		const input = el('input', { list: 'attempts', placeholder: 'JOB:ATTEMPT', 'aria-label': 'Another run, as JOB:ATTEMPT' });
		const add = (event) => {
			event.preventDefault();
			const at = input.value.lastIndexOf(':');

			if (at > 0)
				this.go([...this.runs, { job: input.value.slice(0, at), attempt: Number(input.value.slice(at + 1)) }]);
		};

		this.picker.replaceChildren(el('form', { class: 'tools', onsubmit: add },
			this.runs.map((r, i) => el('span', { class: 'chip' }, el('i', { class: `dot c${i}` }), el('a', { href: jobUrl(r.job, r.attempt) }, `${r.job} #${r.attempt}`),
				el('button', { type: 'button', class: 'small', 'aria-label': `Remove ${r.job} #${r.attempt}`, onclick: () => this.go(this.runs.filter((x) => x !== r)) }, '×'))),
			this.runs.length < MOST ? [input, el('datalist', { id: 'attempts' }, names.map((n) => el('option', { value: n }))), el('button', {}, 'Add')] : null));
	}

	showTools() {
		const sheets = [...new Set(this.reports.flatMap((r) => Object.keys(r.sheet_metrics ?? {})))].sort((a, b) => a - b);
		const align = el('select', { 'aria-label': 'Aligned at', onchange: (e) => {
			this.sheet = e.target.value;
			this.go(this.runs);
		} }, el('option', { value: '' }, 'Aligned at the start'), sheets.map((n) => el('option', { value: n, selected: n === this.sheet }, `Aligned at sheet ${n}`)));

		this.tools.replaceChildren(el('div', { role: 'group', 'aria-label': 'Measure', class: 'choices' }, Object.keys(metrics).map((m) =>
			el('button', { type: 'button', 'aria-pressed': String(m === this.metric), onclick: () => {
				this.metric = m;
				this.go(this.runs);
			} }, metrics[m].title))), align);
	}

	showFigures() {
		const rows = [
			['State', (r) => badge(r)], ['Reason', (r) => r.reason ?? ''],
			['Took', (r) => duration(r.wall_seconds), (r) => r.wall_seconds], ['CPU time', (r) => duration(r.total_cpu_seconds), (r) => r.total_cpu_seconds],
			['Peak memory', (r) => size(r.peak_rss_mb), (r) => r.peak_rss_mb], ['Read from storage', (r) => bytes(r.read_bytes), (r) => r.read_bytes],
			['Written to storage', (r) => bytes(r.write_bytes), (r) => r.write_bytes], ['Processes', (r) => number(r.process_spawn_count, 0), (r) => r.process_spawn_count],
			['Anomalies', (r) => (r.anomalies ? String(r.anomalies.length) : 'unknown')], ['Command', (r) => r.command ?? ''],
		];
		const change = (value, first) => {
			if (value === null || first === null || !first || value === first)
				return null;
			const text = value > 3 * first ? `${number(value / first, value > 10 * first ? 0 : 1)} times`
				: `${value > first ? '+' : '−'}${number(Math.abs(value / first - 1) * 100, 0)} %`;

			return el('small', { class: 'quiet' }, ` ${text}`);
		};

		this.figures.replaceChildren(this.reports.length === 0 ? el('p', { class: 'quiet' }, 'Name two runs to compare, as JOB:ATTEMPT.')
			: table('Figures of the runs', ['', ...this.reports.map((r) => `${r.job_id} #${r.attempt}`)], rows.map(([name, show, value]) =>
				[el('b', {}, name), ...this.reports.map((r, i) => [show(r), i > 0 && value ? change(value(r), value(this.reports[0])) : null])])));
	}

	async showChart() {
		if (this.reports.length === 0)
			return;
		const answers = await Promise.all(this.runs.map((r) => read(r.job, r.attempt, this.metric, 400)));
		const begin = (r) => r.sheet_metrics?.[this.sheet]?.started ?? r.started;
		const totals = answers.map((a, i) => ({ times: a.times.map((t) => t - begin(this.reports[i])), line: group(a, 'total')[0] })).filter((t) => t.line);
		const from = Math.min(...totals.map((t) => t.times[0])), to = Math.max(...totals.map((t) => t.times.at(-1)));
		const times = Array.from({ length: 600 }, (_, i) => from + ((to - from) * i) / 599);
		const at = (t, values, wanted) => {
			const i = Math.round((wanted - t[0]) / (t[1] - t[0]));

			return values[i] ?? null;
		};
		const lines = totals.map(({ times: own, line }, i) => ({ name: `${this.runs[i].job} #${this.runs[i].attempt}`,
			...Object.fromEntries(['low', 'high', 'mid'].map((k) => [k, times.map((t) => at(own, line[k], t))])) }));
		const { title, unit } = metrics[this.metric];

		this.chart?.destroy();
		this.chart = new Chart({ title, unit: `${unit}; time since ${this.sheet ? `sheet ${this.sheet} began` : 'the start'}${leftOutOf(answers.find((a) => a.processes_left_out > 0) ?? answers[0])}`, height: 300,
			format: (v) => (v === null ? 'unknown' : this.metric === 'rss' ? size(v) : number(v, 2)) });
		this.chart.axisTime = (d) => (to - from < 20 ? `${number(d.getTime() / 1000, 2)} s` : duration(Math.round(d.getTime() / 1000)));
		this.picture.replaceChildren(this.chart.node);
		this.chart.set(times, lines);
	}

	onEvent() {}

	onSearch() {}

	destroy() {
		this.chart?.destroy();
	}
}
