// What processes used over time: asked for at the width of the picture, grouped, and searched for
// what else moved.

import { call } from './api.js';

export const metrics = {
	rss: { title: 'Memory', unit: 'MB resident', of: 'memory' },
	cpu: { title: 'CPU', unit: 'percent; 100 is one core', of: 'CPU' },
	io: { title: 'Storage I/O', unit: 'MB/s, read and written', of: 'storage I/O' },
	gpu_memory: { title: 'GPU memory', unit: 'MB', of: 'GPU memory' },
	gpu: { title: 'GPU', unit: 'percent; 100 is one GPU', of: 'GPU use' },
	threads: { title: 'Threads', unit: 'threads', of: 'threads' },
	fds: { title: 'Open files', unit: 'files', of: 'open files' },
};

const nanoseconds = (seconds) => (seconds === null || seconds === undefined ? undefined : String(BigInt(Math.round(seconds * 1e6)) * 1000n));

export async function read(job, attempt, metric, points, from, to) {
	const answer = await call('job.series', { job_id: job, attempt, metric, points, since_ns: nanoseconds(from), until_ns: nanoseconds(to) });

	return { ...answer, times: Array.from({ length: answer.points }, (_, i) => answer.since + (i + 0.5) * answer.step_seconds) };
}

// Between samples that are further apart than pixels lies a straight line; a longer gap stays one.
function spread(process, points) {
	const line = { low: Array(points).fill(null), high: Array(points).fill(null), mid: Array(points).fill(null) };
	const known = process.low.flatMap((v, i) => (v === null ? [] : [i]));
	const gaps = known.slice(1).map((at, i) => at - known[i]).sort((a, b) => a - b);
	const patience = 3 * (gaps[Math.floor(gaps.length * 0.9)] ?? 1);

	known.forEach((at, n) => {
		const next = known[n + 1] - at <= patience ? known[n + 1] : at + 1;

		for (let i = at; i < next; i++) {
			const share = (i - at) / (next - at);

			for (const key of ['low', 'high'])
				line[key][process.first + i] = process[key][at] + (share ? share * (process[key][next] - process[key][at]) : 0);
			line.mid[process.first + i] = (line.low[process.first + i] + line.high[process.first + i]) / 2;
		}
	});
	return line;
}

export const shortName = (command) => {
	const [program, ...rest] = String(command ?? '').split(' ');
	const name = program.split('/').at(-1);

	return `${name} ${rest.join(' ')}`.trim().slice(0, 40);
};

const groups = {
	process: (p) => `${p.pid} ${shortName(p.command)}`,
	sheet: (p) => (p.sheet_num > 0 ? `sheet ${p.sheet_num}` : 'no sheet'),
	rank: (p) => (p.rank === null || p.rank < 0 ? 'no rank' : `rank ${p.rank}`),
	total: () => 'all processes',
};

// The daemon sends the processes with the highest values: a sum of them is not that of all.
export const leftOutOf = (answer) => (answer.processes_left_out > 0
	? `; of the ${answer.processes.length} largest processes, without ${answer.processes_left_out} others` : '');

export function group(answer, by) {
	const found = new Map();

	for (const process of answer.processes) {
		const name = groups[by](process);
		const line = spread(process, answer.points);
		const sum = found.get(name);

		if (!sum) {
			found.set(name, { name, process, ...line });
			continue;
		}
		for (const key of ['low', 'high', 'mid'])
			line[key].forEach((v, i) => {
				if (v !== null)
					sum[key][i] = (sum[key][i] ?? 0) + v;
			});
	}
	const lines = [...found.values()];

	return by === 'rank' || by === 'sheet' ? lines.sort((a, b) => a.name.localeCompare(b.name, 'en', { numeric: true })) : lines;
}

// How far a line moved within the span, of its usual movement: the shift of its mean, against the
// spread of the differences between neighbouring points.
function shift(line, times, [from, to]) {
	const inside = line.mid.filter((v, i) => v !== null && times[i] >= from && times[i] <= to);
	const before = line.mid.filter((v, i) => v !== null && times[i] < from);

	if (inside.length < 4)
		return null;
	const quarter = Math.max(1, Math.floor(inside.length / 4));
	const mean = (a) => a.reduce((s, v) => s + v, 0) / a.length;
	const begin = before.length >= quarter ? mean(before.slice(-quarter)) : mean(inside.slice(0, quarter));
	const end = mean(inside.slice(-quarter));
	const steps = line.mid.slice(1).map((v, i) => (v === null || line.mid[i] === null ? null : Math.abs(v - line.mid[i])))
		.filter((v) => v !== null && v > 0).sort((a, b) => a - b);
	const usual = Math.max(steps[Math.floor(steps.length / 2)] ?? 0, 0.005 * Math.max(...line.mid.map(Math.abs)), 1e-9);

	return { begin, end, score: Math.abs(end - begin) / usual };
}

export async function moved(job, attempt, span) {
	const width = span[1] - span[0];
	const answers = await Promise.all(Object.keys(metrics).map((m) => read(job, attempt, m, 200, span[0] - width, span[1]).catch(() => null)));
	const rows = [];

	for (const answer of answers.filter(Boolean))
		for (const line of group(answer, 'process')) {
			const found = shift(line, answer.times, span);

			if (found && found.score >= 3)
				rows.push({ metric: answer.metric, unit: answer.unit, line, ...found });
		}
	return rows.sort((a, b) => b.score - a.score).slice(0, 20);
}
