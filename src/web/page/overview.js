// The host, the jobs that run and wait, and what went wrong lately.

import { call, change } from './api.js';
import { ago, badge, duration, el, jobUrl, moment, number, progress, section, size, spark, table } from './dom.js';

const KEPT = 180; // snapshots behind the small charts

export class Overview {
	constructor(store) {
		this.store = store;
		this.host = el('div', { class: 'tiles' });
		this.running = el('div', {});
		this.problems = el('div', {});
		this.recent = el('div', {});
		this.node = el('div', { class: 'overview' },
			el('h1', { class: 'hidden' }, 'Overview'),
			section('Host', this.host), section('Running and queued', this.running),
			el('div', { class: 'columns' }, section('Recent problems', this.problems), section('Recent jobs', this.recent)));
	}

	async load() {
		const dayAgo = Math.round((Date.now() / 1000 - 86400) * 1e9);
		const [snapshot, jobs, anomalies, attempts] = await Promise.all([
			call('daemon.top'), call('job.list'), call('job.anomalies', { since_ns: String(BigInt(dayAgo)) }),
			call('job.attempts', { limit: 100 })]);

		this.jobs = jobs;
		this.anomalies = anomalies.anomalies;
		this.attempts = attempts.attempts;
		this.onSnapshot(snapshot);
		this.showJobs();
		this.showProblems();
		this.showRecent();
	}

	onSnapshot(s) {
		const ring = this.store.ring;

		if (s.processes === undefined)
			return;
		if (ring.at(-1)?.timestamp !== s.timestamp)
			ring.push(digest(s, ring.at(-1)));
		if (ring.length > KEPT)
			ring.shift();
		this.showHost(s);
		if (this.jobs)
			this.showJobs();
	}

	async onEvent(topic, event) {
		if (topic === 'snapshot')
			this.onSnapshot(event.data);
		else if (topic.startsWith('job.') || topic.startsWith('sheet.') || topic === 'monitor.anomaly')
			this.loadSoon();
	}

	loadSoon() {
		this.timer ??= setTimeout(() => {
			this.timer = null;
			this.load().catch(this.store.onFailure);
		}, 300);
	}

	showHost(s) {
		const ring = this.store.ring, last = ring.at(-1);
		const tile = (name, value, note, values, max, level) => el('div', { class: `tile ${level ?? ''}` },
			el('div', { class: 'name' }, name), el('div', { class: 'value' }, value), el('div', { class: 'note' }, note),
			spark(values, max, `${name}: the last ${values.length} samples`));
		const pressure = (name, psi) => psi?.some && tile(`${name} pressure`, `${number(psi.some.avg10)} %`,
			`some task waited, last 10 s; last minute ${number(psi.some.avg60)} %`,
			ring.map((r) => r[`psi_${name.toLowerCase()}`]), 100, psi.some.avg10 > 40 ? 'warn' : '');
		const share = s.system_memory_used_mb / s.system_memory_total_mb;

		this.host.replaceChildren(...[
			tile('CPU', last.cpu === null ? 'measuring' : `${number(last.cpu, 0)} %`,
				`of ${s.cpu_count} cores; load ${number(s.load_avg_1, 2)}`, ring.map((r) => r.cpu), 100, last.cpu > 95 ? 'warn' : ''),
			tile('Memory', `${size(s.system_memory_used_mb)}`, `of ${size(s.system_memory_total_mb)}; swap ${size(s.swap_total_mb - s.swap_free_mb)}`,
				ring.map((r) => r.memory), s.system_memory_total_mb, share > 0.9 ? 'bad' : ''),
			pressure('CPU', s.psi_cpu), pressure('Memory', s.psi_memory), pressure('IO', s.psi_io),
			...(s.gpus ?? []).map((g, i) => tile(`GPU ${g.index ?? i}`, `${number(g.utilization_pct ?? g.gpu_pct, 0)} %`,
				`${size(g.memory_used_mb)} of ${size(g.memory_total_mb)}`, ring.map((r) => r.gpus[i] ?? null), 100)),
		].filter(Boolean));
	}

	showJobs() {
		const wanted = this.store.search;
		const jobs = this.jobs.filter((j) => matches(j, wanted));

		if (jobs.length === 0) {
			this.running.replaceChildren(el('p', { class: 'quiet' }, this.jobs.length
				? 'No running job matches the search.' : 'No job runs or waits. Start one with: proctor run --job NAME -- COMMAND'));
			return;
		}
		this.running.replaceChildren(...jobs.map((j) => this.jobRow(j)));
	}

	jobRow(j) {
		const id = `${j.job_id} ${j.attempt} ${j.uid}`;
		const ring = this.store.ring;
		const now = ring.at(-1)?.jobs.get(`${j.job_id} ${j.attempt}`);
		const values = (key) => ring.map((r) => r.jobs.get(`${j.job_id} ${j.attempt}`)?.[key] ?? null);
		const progressNow = ring.at(-1)?.progress.get(`${j.job_id} ${j.attempt}`);
		const done = progressNow?.last_completed_sheet ?? j.last_completed_sheet, total = j.total_sheets;
		const sheet = progressNow?.current_sheet ?? j.current_sheet;
		const isQueued = j.status === 'queued';

		return el('article', { class: 'job', 'data-job': id },
			el('div', { class: 'who' }, el('a', { href: isQueued ? null : jobUrl(j.job_id, j.attempt) }, j.job_id),
				j.attempt ? el('span', { class: 'quiet' }, ` #${j.attempt}`) : null, ' ', badge(j),
				el('div', { class: 'command', title: j.command }, j.command)),
			el('div', { class: 'steps' },
				total > 1 ? progress(done / total, `${done} of ${total} sheets`) : null,
				isQueued ? (j.why_queued ?? 'waits for its turn')
					: [total > 1 ? `sheet ${sheet ?? done} of ${total}` : null, j.current_sheet_name, `for ${duration(Math.max(0, Date.now() / 1000 - j.started))}`]
						.filter(Boolean).join(', '),
				j.why_held ? el('div', { class: 'warn' }, `held: ${j.why_held}`) : null),
			isQueued ? [el('div', {}, el('span', { class: 'quiet' }, `submitted ${ago(j.submitted)}`)), el('div', {})]
				: [el('div', {}, el('b', {}, size(now?.rss ?? j.rss_mb)), spark(values('rss'), null, 'memory')),
					el('div', {}, el('b', {}, now?.cpu === null || now === undefined ? '' : `${number(now.cpu, 0)} % CPU`), spark(values('cpu'), null, 'CPU'))],
			el('div', {}, el('button', { type: 'button', class: 'small', onclick: (e) => this.cancel(j, e.target) }, 'Cancel')));
	}

	async cancel(j, button) {
		if (!confirm(`End job ${j.job_id}${j.attempt ? ` #${j.attempt}` : ''}?`))
			return;
		button.disabled = true;
		try {
			await change('job.cancel', { job_id: j.job_id, attempt: j.attempt ?? undefined, uid: j.uid, queued: j.attempt ? undefined : true });
		} catch (failure) {
			button.disabled = false;
			this.store.onFailure(failure);
		}
	}

	showProblems() {
		const failed = this.attempts.filter((a) => a.ended && (a.lost || (a.outcome && a.outcome !== 'success')))
			.map((a) => ({ time: a.ended, job: a.job_id, attempt: a.attempt, what: badge(a), text: a.reason ?? '', row: a }));
		const found = this.anomalies.map((a) => ({ time: a.began ?? a.timestamp, job: a.job_id, attempt: a.attempt,
			what: el('span', { class: `badge ${a.severity}` }, (a.anomaly_type ?? a.type ?? '').replaceAll('_', ' ')), text: a.description ?? '', row: a }));
		const rows = [...failed, ...found].filter((p) => matches(p.row, this.store.search)).sort((a, b) => b.time - a.time).slice(0, 30);

		this.problems.replaceChildren(rows.length === 0 ? el('p', { class: 'quiet' }, 'Nothing in the last day.')
			: table('Recent problems', ['when', 'job', 'what', ''], rows.map((p) => [el('time', { title: moment(p.time) }, ago(p.time)),
				p.job ? el('a', { href: jobUrl(p.job, p.attempt > 0 ? p.attempt : null) }, p.job) : el('span', { class: 'quiet' }, 'host'), p.what, p.text])));
	}

	showRecent() {
		const rows = this.attempts.filter((a) => matches(a, this.store.search)).toReversed().slice(0, 40);

		this.recent.replaceChildren(rows.length === 0 ? el('p', { class: 'quiet' }, 'No job was recorded.')
			: table('Recent jobs', ['job', 'state', { text: 'took', class: 'n' }, 'started', ''], rows.map((a) => [
				[el('a', { href: jobUrl(a.job_id, a.attempt) }, a.job_id), el('span', { class: 'quiet' }, ` #${a.attempt}`)], badge(a),
				duration(a.wall_seconds ?? (a.ended || a.lost ? null : Date.now() / 1000 - a.started)), el('time', { title: moment(a.started) }, ago(a.started)), a.reason ?? ''])));
	}

	onSearch() {
		if (!this.jobs)
			return;
		this.showJobs();
		this.showProblems();
		this.showRecent();
	}

	destroy() {
		clearTimeout(this.timer);
	}
}

const matches = (row, wanted) => !wanted || ['job_id', 'command', 'reason', 'outcome', 'status', 'description']
	.some((key) => String(row[key] ?? '').toLowerCase().includes(wanted));

// Of a snapshot what the small charts need.
function digest(s, before) {
	const jobs = new Map();
	const busy = (x) => x.cpu_user_seconds + x.cpu_system_seconds + (x.cpu_steal_seconds ?? 0);
	const all = (x) => busy(x) + x.cpu_idle_seconds + (x.cpu_iowait_seconds ?? 0);
	const spent = before ? all(s) - before.all : 0;

	for (const p of s.processes) {
		if (!p.job_id)
			continue;
		const attempt = s.job_progress.find((j) => j.attempt_id === p.attempt_id)?.attempt;
		const sum = jobs.get(`${p.job_id} ${attempt}`) ?? { rss: 0, cpu: null };

		sum.rss = sum.rss === null || p.rss_mb === null ? null : sum.rss + p.rss_mb;
		if (p.cpu_percent !== null)
			sum.cpu = (sum.cpu ?? 0) + p.cpu_percent;
		jobs.set(`${p.job_id} ${attempt}`, sum);
	}
	return {
		timestamp: s.timestamp,
		all: all(s),
		busy: busy(s),
		cpu: spent > 0 ? 100 * (busy(s) - before.busy) / spent : null,
		memory: s.system_memory_used_mb,
		psi_cpu: s.psi_cpu?.some?.avg10 ?? null,
		psi_memory: s.psi_memory?.some?.avg10 ?? null,
		psi_io: s.psi_io?.some?.avg10 ?? null,
		gpus: (s.gpus ?? []).map((g) => g.utilization_pct ?? g.gpu_pct ?? null),
		jobs,
		progress: new Map(s.job_progress.map((j) => [`${j.job_id} ${j.attempt}`, j])),
	};
}
