// Elements and texts. What comes from the record is only ever set as text, never as markup.

export function el(name, attributes, ...children) {
	const node = document.createElement(name);

	for (const [key, value] of Object.entries(attributes ?? {})) {
		if (key.startsWith('on'))
			node.addEventListener(key.slice(2), value);
		else if (key === 'class')
			node.className = value;
		else if (value === true)
			node.setAttribute(key, '');
		else if (value !== false && value !== null && value !== undefined)
			node.setAttribute(key, value);
	}
	node.append(...children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false));
	return node;
}

export function svg(name, attributes, ...children) {
	const node = document.createElementNS('http://www.w3.org/2000/svg', name);

	for (const [key, value] of Object.entries(attributes ?? {}))
		node.setAttribute(key, value);
	node.append(...children);
	return node;
}

const UNKNOWN = 'unknown';

export function number(value, digits = 1) {
	if (value === null || value === undefined)
		return UNKNOWN;
	return value.toLocaleString('en', { maximumFractionDigits: digits });
}

export function size(mb) {
	if (mb === null || mb === undefined)
		return UNKNOWN;
	if (mb >= 1024 * 1024)
		return `${number(mb / 1024 / 1024, 2)} TB`;
	if (mb >= 1024)
		return `${number(mb / 1024, mb >= 10240 ? 1 : 2)} GB`;
	return mb >= 1 || mb === 0 ? `${number(mb, mb < 10 ? 1 : 0)} MB` : `${number(mb * 1024, 0)} kB`;
}

export function bytes(value) {
	return size(value === null || value === undefined ? value : value / 1048576);
}

export function duration(seconds) {
	if (seconds === null || seconds === undefined)
		return UNKNOWN;
	if (seconds > 0 && seconds < 1)
		return `${number(seconds * 1000, seconds < 0.01 ? 2 : 0)} ms`;
	if (seconds < 60)
		return `${number(seconds, seconds < 10 ? 2 : 1)} s`;
	const s = Math.round(seconds);
	const [d, h, m] = [Math.floor(s / 86400), Math.floor(s / 3600) % 24, Math.floor(s / 60) % 60];

	if (d > 0)
		return `${d} d ${h} h`;
	return h > 0 ? `${h} h ${m} min` : `${m} min ${s % 60} s`;
}

export function ago(time) {
	const seconds = Date.now() / 1000 - time;

	if (seconds < 5)
		return 'now';
	return `${duration(seconds < 60 ? Math.round(seconds) : Math.floor(seconds / 60) * 60).replace(' 0 s', '')} ago`;
}

const two = (n) => String(n).padStart(2, '0');

export function clock(time) {
	const d = new Date(time * 1000);

	return `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`;
}

export function moment(time) {
	if (time === null || time === undefined)
		return UNKNOWN;
	const d = new Date(time * 1000);
	const day = d.toDateString() === new Date().toDateString() ? ''
		: `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())} `;

	return day + clock(time);
}

// Of a value that is not exact.
export const marks = { sampled: '~', 'at least': '≥', 'at most': '≤' };

export function marked(text, evidence) {
	return text === UNKNOWN || !marks[evidence] ? text : `${marks[evidence]} ${text}`;
}

export function jobUrl(job, attempt, view = 'job') {
	return `#/${view}/${encodeURIComponent(job)}${attempt ? `/${attempt}` : ''}`;
}

// Outcomes are words first; the colour repeats them.
export function badge(job) {
	const state = job.lost ? 'lost' : job.outcome ?? job.status;

	return el('span', { class: `badge ${state}` }, state);
}

export function table(caption, heads, rows, attributes) {
	return el('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': caption },
		el('table', attributes,
			el('caption', { class: 'hidden' }, caption),
			el('thead', {}, el('tr', {}, heads.map((h) => el('th', { scope: 'col', class: h.class }, h.text ?? h)))),
			el('tbody', {}, rows.map((row) => el('tr', row.attributes,
				(row.cells ?? row).map((cell, i) => el('td', { class: heads[i]?.class }, cell)))))));
}

export function section(title, ...children) {
	return el('section', {}, el('h2', {}, title), ...children);
}

// A small line without axes; the text beside it has the number.
export function spark(values, max, label) {
	const width = 120, height = 28;
	const top = max ?? Math.max(1e-9, ...values.filter((v) => v !== null));
	let path = '', isOpen = false;

	values.forEach((value, i) => {
		if (value === null) {
			isOpen = false;
			return;
		}
		const x = values.length > 1 ? (i / (values.length - 1)) * width : width;

		path += `${isOpen ? 'L' : 'M'}${x.toFixed(1)} ${(height - 1 - Math.min(1, value / top) * (height - 2)).toFixed(1)}`;
		isOpen = true;
	});
	return svg('svg', { viewBox: `0 0 ${width} ${height}`, class: 'spark', preserveAspectRatio: 'none', role: 'img', 'aria-label': label },
		svg('path', { d: path || 'M0 27', fill: 'none' }));
}

export function progress(share, label) {
	return el('div', { class: 'progress', role: 'progressbar', 'aria-label': label, 'aria-valuemin': 0, 'aria-valuemax': 100,
		'aria-valuenow': Math.round(share * 100) },
		svg('svg', { viewBox: '0 0 100 4', preserveAspectRatio: 'none', 'aria-hidden': 'true' },
			svg('rect', { width: String(Math.min(100, share * 100)), height: '4' })));
}

// Replaces what a node has; what the user has opened stays open.
export function refill(node, ...children) {
	const open = new Set([...node.querySelectorAll('details[open] > summary')].map((s) => s.textContent));

	node.replaceChildren(...children);
	for (const details of node.querySelectorAll('details'))
		if (open.has(details.querySelector(':scope > summary')?.textContent))
			details.open = true;
}
