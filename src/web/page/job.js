// One attempt: the answer first, then what it used over time, its processes, events and likes.

import { call, change } from './api.js';
import { Chart } from './chart.js';
import { badge, bytes, clock, duration, el, jobUrl, marked, moment, number, refill, section, size, svg, table } from './dom.js';
import { group, metrics, moved, read, shortName } from './series.js';

const typeName = (a) => (a.anomaly_type ?? a.type ?? '').replaceAll('_', ' ');

export class Job {
	constructor(store, job, attempt, options) {
		Object.assign(this, { store, job, attempt: attempt ? Number(attempt) : undefined });
		this.metric = Object.hasOwn(metrics, options.get('m')) ? options.get('m') : 'rss';
		this.by = ['process', 'sheet', 'rank', 'total'].includes(options.get('by')) ? options.get('by') : 'process';
		this.stacked = options.get('stack') === '1';
		this.span = options.get('from') && options.get('to') ? [Number(options.get('from')), Number(options.get('to'))] : null;
		this.head = el('div', { class: 'answer' });
		this.facts = el('dl', { class: 'facts' });
		this.time = el('div', {});
		this.found = el('div', {});
		this.tools = el('div', { class: 'tools' });
		this.picture = el('div', {});
		this.also = el('div', {});
		this.tree = el('div', {});
		this.rest = el('div', {});
		this.node = el('div', { class: 'jobview' }, this.head, this.facts, this.time, this.found,
			section('Over time', this.tools, this.picture, this.also), this.tree, this.rest);
	}

	async load() {
		const report = await call('job.report', { job_id: this.job, attempt: this.attempt });

		this.report = report;
		this.attempt = report.attempt;
		document.title = `${this.job} #${this.attempt} · proctor`;
		this.showAnswer();
		this.showTime();
		this.showAnomalies();
		this.showTools();
		this.showTree();
		this.showRest();
		await this.showChart();
	}

	get isRunning() {
		return this.report.status === 'running' && !this.report.lost;
	}

	showAnswer() {
		const r = this.report, e = r.evidence ?? {};
		const fact = (name, value, note) => value !== null && el('div', {}, el('dt', {}, name), el('dd', {}, value, note ? el('small', {}, ` ${note}`) : null));

		this.head.replaceChildren(
			el('h1', {}, this.job, el('span', { class: 'quiet' }, ` #${r.attempt} `), badge(r)),
			el('p', { class: 'verdict' }, this.isRunning ? `runs since ${moment(r.started)}${r.current_sheet ? `, sheet ${r.current_sheet} of ${r.total_sheets}` : ''}` : r.verdict),
			el('p', { class: 'command' }, r.command ?? ''),
			el('p', { class: 'links' },
				r.attempt > 1 ? el('a', { href: jobUrl(this.job, r.attempt - 1) }, `#${r.attempt - 1}`) : null, ' ',
				el('a', { href: `#/compare?runs=${encodeURIComponent(`${this.job}:${r.attempt}`)}${r.attempt > 1 ? `,${encodeURIComponent(`${this.job}:${r.attempt - 1}`)}` : ''}` },
					r.attempt > 1 ? `Compare with #${r.attempt - 1}` : 'Compare'), ' ',
				r.telemetry ? el('a', { href: jobUrl(this.job, r.attempt, 'ranks') }, 'Ranks') : null, ' ',
				el('a', { href: `/api/job.report?job_id=${encodeURIComponent(this.job)}&attempt=${r.attempt}`, download: `${this.job}-${r.attempt}.json` }, 'JSON'), ' ', this.actions()));
		this.facts.replaceChildren(...[
			fact('Took', this.isRunning ? duration(Date.now() / 1000 - r.started) : marked(duration(r.wall_seconds), e.wall_seconds)),
			fact('Peak memory', marked(size(r.peak_rss_mb), e.peak_rss_mb), r.max_process_rss_mb !== null ? `one process ${size(r.max_process_rss_mb)}` : ''),
			fact('CPU time', marked(duration(r.total_cpu_seconds), e.total_cpu_seconds), r.avg_cpu_pct !== null ? `${number(r.avg_cpu_pct, 0)} % on average` : ''),
			fact('Storage', `${bytes(r.read_bytes)} read`, `${bytes(r.write_bytes)} written`),
			r.peak_gpu_memory_mb ? fact('GPU memory', marked(size(r.peak_gpu_memory_mb), e.peak_gpu_memory_mb), `${duration(r.gpu_seconds)} of GPU time`) : false,
			fact('Processes', marked(number(r.process_spawn_count, 0), e.process_spawn_count), `at most ${number(r.max_processes, 0)} at once`),
			fact('Started', moment(r.started)), r.ended ? fact('Ended', moment(r.ended)) : false,
			r.exit_code !== null && !this.isRunning ? fact('Exit code', String(r.exit_code)) : false,
			r.signal ? fact('Signal', String(r.signal)) : false,
			fact('Host', r.host ?? 'unknown', r.workdir),
		].filter(Boolean));
	}

	// What changes something is asked for once more.
	actions() {
		const r = this.report;
		const button = (label, question, method, params) => el('button', { type: 'button', class: 'small', onclick: () => confirm(question)
			&& change(method, { job_id: this.job, attempt: r.attempt, ...params }).then(() => this.load()).catch(this.store.onFailure) }, label);
		const judge = (outcome, label) => button(label, `Record that ${this.job} #${r.attempt} was a ${outcome}?`, 'job.outcome', { outcome });

		if (this.isRunning)
			return button('Cancel', `End job ${this.job} #${r.attempt}?`, 'job.cancel', { uid: r.uid });
		if (!r.ended)
			return null;
		return r.outcome === 'success' ? judge('failure', 'Mark as failure') : judge('success', 'Mark as success');
	}

	// Where the time of its threads went: a bar, and the same in words.
	showTime() {
		const seconds = this.report.time?.seconds;

		if (!seconds) {
			this.time.replaceChildren();
			return;
		}
		const parts = Object.entries(seconds).filter(([, v]) => v > 0).sort((a, b) => b[1] - a[1]);
		const all = parts.reduce((sum, [, v]) => sum + v, 0);
		const shown = parts.filter(([, v]) => v / all >= 0.005).slice(0, 8);
		let x = 0;

		this.time.replaceChildren(...(all > 0 ? [section('Where the time went',
			svg('svg', { viewBox: '0 0 1000 10', preserveAspectRatio: 'none', class: 'share', 'aria-hidden': 'true' }, ...shown.map(([, v], i) => {
				const rect = svg('rect', { x: String(x), width: String((v / all) * 1000), height: '10', class: `c${i}` });

				x += (v / all) * 1000;
				return rect;
			})),
			el('ul', { class: 'key' }, shown.map(([k, v], i) => el('li', {}, el('i', { class: `dot c${i}` }), k.replaceAll('_', ' '), ' ',
				el('b', {}, marked(`${number((100 * v) / all, 0)} %`, this.report.time.evidence)), el('span', { class: 'quiet' }, ` ${duration(v)}`)))))] : []));
	}

	// ---- anomalies ----

	showAnomalies() {
		const list = this.report.anomalies ?? [];

		refill(this.found, ...(list.length === 0 ? [] : [section('Anomalies', el('div', { class: 'anomalies' },
			list.map((a, i) => this.anomaly(a, i))))]));
	}

	anomaly(a, i) {
		const skip = new Set(['job_id', 'attempt', 'description', 'host', 'anomaly_type', 'severity', 'episode', 'timestamp', 'as_of', 'start_ticks']);

		return el('details', { id: `anomaly-${i}`, class: `anomaly ${a.severity}` },
			el('summary', {}, el('span', { class: `badge ${a.severity}` }, a.severity), ' ', el('strong', {}, typeName(a)), ' ', a.description ?? ''),
			tree(Object.fromEntries(Object.entries(a).filter(([k]) => !skip.has(k)))));
	}

	openAnomaly(i) {
		const node = document.getElementById(`anomaly-${i}`);

		node.open = true;
		node.scrollIntoView({ block: 'center' });
		node.querySelector('summary').focus();
	}

	ribbons() {
		return (this.report.anomalies ?? []).map((a, i) => ({
			from: a.began ?? a.timestamp ?? a.onset, to: a.ended ?? a.cleared ?? null, label: typeName(a),
			severe: a.severity === 'critical' || a.severity === 'high', onopen: () => this.openAnomaly(i),
		})).filter((r) => r.from);
	}

	// ---- over time ----

	showTools() {
		const choice = (name, value, current, label) => el('button', { type: 'button', 'aria-pressed': String(value === current),
			onclick: () => this.choose({ [name]: value }) }, label);
		const known = Object.keys(metrics).filter((m) => !m.startsWith('gpu') || this.report.peak_gpu_memory_mb);

		this.tools.replaceChildren(
			el('div', { role: 'group', 'aria-label': 'Measure', class: 'choices' }, known.map((m) => choice('metric', m, this.metric, metrics[m].title))),
			el('div', { role: 'group', 'aria-label': 'Lines', class: 'choices' }, ['process', 'sheet', 'rank', 'total']
				.map((by) => choice('by', by, this.by, by === 'total' ? 'Total' : `By ${by}`))),
			el('div', { role: 'group', 'aria-label': 'Shape', class: 'choices' }, choice('stacked', false, this.stacked, 'Single'), choice('stacked', true, this.stacked, 'Stacked')));
	}

	choose(what) {
		Object.assign(this, what);
		this.share();
		this.showTools();
		this.showChart().catch(this.store.onFailure);
	}

	// The address is a link to this picture.
	share() {
		const options = new URLSearchParams({ m: this.metric, by: this.by });

		if (this.stacked)
			options.set('stack', '1');
		if (this.span) {
			options.set('from', this.span[0].toFixed(3));
			options.set('to', this.span[1].toFixed(3));
		}
		history.replaceState(null, '', `${jobUrl(this.job, this.attempt)}?${options}`);
	}

	async showChart() {
		const points = Math.max(100, Math.min(1200, Math.round(this.picture.clientWidth || 800)));
		const wanted = `${this.metric} ${this.by} ${this.span}`;

		this.wanted = wanted;
		const all = [this.report.started, this.isRunning ? Date.now() / 1000 : this.report.ended ?? this.report.last_seen];
		const key = { rss: 'rss_mb', cpu: 'cpu_percent' }[this.metric], curve = this.report.series ?? [];

		// The report has the whole job's curve, before a day of samples has been read, and when they are gone.
		const hasCurve = !this.span && key && !this.stacked && curve.length > 0;

		if (hasCurve && !this.chart)
			this.draw(curve.map((p) => p.timestamp), [{ name: 'all processes', mid: curve.map((p) => p[key]) }], 0);
		const answer = await read(this.job, this.attempt, this.metric, points, ...(this.span ?? all));

		// Another may have been chosen meanwhile.
		if (this.wanted === wanted && (answer.processes.length > 0 || !hasCurve))
			this.draw(answer.times, group(answer, this.by).slice(0, 60), answer.processes_left_out);
	}

	draw(times, lines, leftOut) {
		const { title, unit } = metrics[this.metric];

		if (!this.chart || this.chart.title !== title || this.chart.stacked !== this.stacked) {
			this.chart?.destroy();
			this.chart = new Chart({ title, unit, stacked: this.stacked, height: 280, onspan: (span) => this.chooseSpan(span),
				format: (v) => (v === null ? 'unknown' : this.metric === 'rss' || this.metric === 'gpu_memory' ? size(v) : number(v, v < 10 ? 2 : 0)) });
			this.key = el('ul', { class: 'key' });
			this.picture.replaceChildren(this.chart.node, this.key);
		}
		this.chart.window = this.span;
		this.chart.reset.hidden = !this.span;
		this.chart.set(times, lines, this.ribbons());
		this.key.replaceChildren(...lines.slice(0, 16).map((line, i) => el('li', {}, el('i', { class: `dot c${i % 8}` }), line.name)),
			...(lines.length > 16 ? [el('li', { class: 'quiet' }, `and ${lines.length - 16} more`)] : []),
			...(leftOut ? [el('li', { class: 'quiet' }, `${leftOut} processes with lower values are not drawn, nor in any sum`)] : []));
	}

	async chooseSpan(span) {
		if (String(span) === String(this.span))
			return;
		this.span = span;
		this.share();
		this.showTree();
		await Promise.all([this.showChart(), this.showMoved()]).catch(this.store.onFailure);
	}

	async showMoved() {
		const span = this.span;

		if (!span) {
			this.also.replaceChildren();
			return;
		}
		this.also.replaceChildren(el('p', { class: 'quiet' }, 'Searching what else moved'));
		const rows = await moved(this.job, this.attempt, span);

		if (this.span !== span)
			return;
		this.also.replaceChildren(el('h3', {}, `What else moved from ${clock(span[0])} to ${clock(span[1])}`), rows.length === 0
			? el('p', { class: 'quiet' }, 'No process changed by more than it usually does.')
			: table('What else moved', ['process', 'measure', { text: 'before', class: 'n' }, { text: 'after', class: 'n' }, { text: 'times its usual step', class: 'n' }],
				rows.map((row) => [row.line.name, metrics[row.metric].of, `${number(row.begin, 2)} ${row.unit}`, `${number(row.end, 2)} ${row.unit}`, number(row.score, 0)])));
	}

	// ---- processes ----

	showTree() {
		const r = this.report, all = r.processes ?? [];
		const [from, to] = this.span ?? [r.started, r.ended ?? r.last_seen ?? Date.now() / 1000];
		const ordered = inTreeOrder(all).filter(({ p }) => (p.died ?? to) >= from && p.born <= to);
		const shown = ordered.length > 200 ? ordered.toSorted((a, b) => (b.p.max_rss_mb ?? 0) - (a.p.max_rss_mb ?? 0)).slice(0, 200) : ordered;
		const rows = ordered.filter((x) => shown.length === ordered.length || shown.includes(x));
		const bar = (p) => {
			const left = Math.max(0, (p.born - from) / (to - from)) * 1000;
			const right = Math.min(1, ((p.died ?? to) - from) / (to - from)) * 1000;
			const failed = (p.exit_code ?? 0) !== 0 || p.signal;

			return svg('svg', { viewBox: '0 0 1000 10', preserveAspectRatio: 'none', class: failed ? 'life failed' : 'life', 'aria-hidden': 'true' },
				svg('rect', { x: left.toFixed(1), width: Math.max(2, right - left).toFixed(1), y: '1', height: '8', rx: '2' }));
		};

		this.tree.replaceChildren(el('details', { open: this.treeOpen ?? rows.length <= 60, class: 'part', ontoggle: (e) => (this.treeOpen = e.target.open) },
			el('summary', {}, el('h2', {}, 'Processes'), el('span', { class: 'quiet' }, ` ${all.length}${rows.length < all.length ? `, ${rows.length} of them here` : ''}`)),
			table('Processes with their lifetimes', ['process', { text: 'memory', class: 'n' }, { text: 'CPU', class: 'n' }, 'end', `${clock(from)} to ${clock(to)}`],
				rows.map(({ p, depth }) => [
					el('span', { class: `in d${Math.min(depth, 8)}`, title: p.command }, el('b', {}, String(p.pid)), ` ${shortName(p.command)}`),
					marked(size(p.max_rss_mb), p.evidence), marked(duration((p.user_cpu_seconds ?? 0) + (p.system_cpu_seconds ?? 0)), p.cpu_evidence),
					p.died ? (p.signal ? `signal ${p.signal}` : p.exit_code === null ? 'unknown' : String(p.exit_code)) : 'runs',
					el('span', { title: `${moment(p.born)} to ${p.died ? moment(p.died) : 'now'}` }, bar(p))]), { class: 'lives' })));
	}

	// ---- the rest ----

	showRest() {
		const r = this.report;
		const sheets = Object.entries(r.sheet_metrics ?? {});
		const notable = (r.events ?? []).filter((e) => !['spawn', 'exit'].includes(e.event_type) || e.exit_code > 0);
		const like = r.runs_like_this;
		const part = (title, count, ...children) => el('details', { class: 'part' }, el('summary', {}, el('h2', {}, title),
			count !== null ? el('span', { class: 'quiet' }, ` ${count}`) : null), ...children);

		refill(this.rest, ...[
			sheets.length > 1 && el('section', {}, el('h2', {}, 'Sheets'), table('Sheets', ['sheet', 'state', { text: 'took', class: 'n' }, { text: 'memory', class: 'n' }, { text: 'CPU time', class: 'n' }, ''],
				sheets.map(([n, s]) => [`${n} ${s.name ?? shortName(s.command)}`, badge({ outcome: s.outcome, status: s.started ? 'running' : 'waits' }), duration(s.wall_seconds),
					size(s.peak_rss_mb), duration(s.total_cpu_seconds), s.reason ?? '']))),
			like && el('section', {}, el('h2', {}, 'Similar runs'), el('p', {}, `${like.others} runs of the same kind before it (${like.basis}), ${like.others_failed} of them failed.`),
				table('Similar runs', ['measure', { text: 'this run', class: 'n' }, { text: 'median', class: 'n' }, { text: '19 of 20 between', class: 'n' }, { text: 'estimate at its start', class: 'n' }], [
					similar('Time', like.wall_seconds, duration, like.expected?.estimated_wall_seconds),
					similar('CPU time', like.total_cpu_seconds, duration, like.expected?.estimated_cpu_seconds),
					similar('Peak memory', like.peak_rss_mb, size, like.expected?.estimated_peak_memory_mb)])),
			(r.phases ?? []).length > 0 && part('Phases', r.phases.length, table('Phases', ['phase', 'began', 'ended'], r.phases.map((p) => [p.name ?? p.phase, moment(p.began ?? p.entered), moment(p.ended ?? p.exited)]))),
			notable.length > 0 && part('Events', notable.length, table('Events', ['when', 'event', 'process', ''], notable.slice(0, 500).map((e) => [moment(e.timestamp), e.event_type,
				String(e.pid), [e.signal_num ? `signal ${e.signal_num} ` : '', e.exit_code !== null && e.exit_code !== undefined ? `exit code ${e.exit_code} ` : '', e.details ?? ''].join('')]))),
			(r.syscalls ?? []).length > 0 && part('System calls', r.syscalls.length, table('System calls', ['call', { text: 'count', class: 'n' }, { text: 'failed', class: 'n' }, { text: 'CPU', class: 'n' }, { text: 'waited', class: 'n' }],
				r.syscalls.slice(0, 40).map((c) => [c.name, number(c.count, 0), number(c.errors, 0), duration(c.cpu_seconds), duration(c.wait_seconds)]))),
			...['output_tail', 'stderr_tail', 'stdout_tail'].filter((k) => r[k]).map((k) => part('Output', null, el('pre', {}, String(r[k])))),
			(r.unknown ?? []).length > 0 && part('What could not be measured', r.unknown.length, table('Unknown', ['what', 'why'], r.unknown.map((u) => [u.what, u.why]))),
			part('How it was measured', null, table('Methods', ['measurement', 'method', 'why no better one'], Object.entries(r.rungs ?? {}).map(([k, v]) => [k, v, r.rung_reasons?.[k] ?? '']))),
		].filter(Boolean));
	}

	onEvent(topic, event) {
		const isOwn = event.data?.job_id === this.job;

		if (topic === 'snapshot' ? this.report && this.isRunning && !this.span : isOwn && !topic.startsWith('process.'))
			this.loadSoon(topic === 'snapshot' ? 3000 : 300);
	}

	loadSoon(ms) {
		this.timer ??= setTimeout(() => {
			this.timer = null;
			this.load().catch(this.store.onFailure);
		}, ms);
	}

	onSearch(text) {
		for (const row of this.node.querySelectorAll('tbody tr'))
			row.hidden = text !== '' && !row.textContent.toLowerCase().includes(text);
	}

	destroy() {
		clearTimeout(this.timer);
		this.chart?.destroy();
	}
}

function similar(name, s, format, expected) {
	if (!s)
		return [name, 'unknown', '', '', ''];
	return [name, [format(s.value), s.unusual ? el('span', { class: 'badge high' }, 'unusual') : ''], format(s.median), `${format(s.low)} and ${format(s.high)}`,
		expected === null || expected === undefined ? '' : format(expected)];
}

// Evidence as it is: values side by side, lists of objects as tables.
function tree(value) {
	const plain = Object.entries(value).filter(([, v]) => v !== null && typeof v !== 'object');
	const nested = Object.entries(value).filter(([, v]) => v !== null && typeof v === 'object' && Object.keys(v).length > 0);

	return el('div', { class: 'evidence' },
		plain.length > 0 ? el('dl', { class: 'facts' }, plain.map(([k, v]) => el('div', {}, el('dt', {}, k.replaceAll('_', ' ')), el('dd', {}, valueText(k, v))))) : null,
		nested.map(([k, v]) => [el('h3', {}, k.replaceAll('_', ' ')), !Array.isArray(v) ? tree(v)
			: v.every((item) => item === null || typeof item !== 'object') ? el('p', {}, v.map((item) => valueText(k, item)).join(', ')) : listTable(k, v)]));
}

function valueText(key, v) {
	if (v === null || v === undefined)
		return '';
	if (typeof v !== 'number' || /pid|fd$|num$|rank/.test(key))
		return typeof v === 'object' ? JSON.stringify(v).slice(0, 200) : String(v);
	return v > 1e9 && v < 1e10 ? moment(v) : number(v, 2);
}

function listTable(name, list) {
	const keys = [...new Set(list.flatMap((item) => Object.keys(item ?? {})))].slice(0, 8);

	return table(name.replaceAll('_', ' '), keys.map((k) => k.replaceAll('_', ' ')), list.slice(0, 100).map((item) => keys.map((k) => valueText(k, item?.[k]))));
}

function inTreeOrder(processes) {
	const children = new Map(), byPid = new Map(processes.map((p) => [p.pid, p]));
	const found = [], seen = new Set();

	for (const p of processes) {
		const parent = byPid.has(p.ppid) && p.ppid !== p.pid ? p.ppid : null;

		children.set(parent, [...(children.get(parent) ?? []), p]);
	}
	const walk = (list, depth) => {
		for (const p of list ?? []) {
			if (seen.has(p))
				continue;
			seen.add(p);
			found.push({ p, depth });
			walk(children.get(p.pid), depth + 1);
		}
	};

	walk(children.get(null), 0);
	for (const p of processes)
		if (!seen.has(p))
			found.push({ p, depth: 0 });
	return found;
}
