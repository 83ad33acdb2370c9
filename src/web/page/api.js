// What the daemon answers, and its events as they come.

let session = null;

export class Failure extends Error {
	constructor(status, message) {
		super(message);
		this.status = status;
	}
}

async function ask(path, options) {
	let response;

	try {
		response = await fetch(path, { credentials: 'same-origin', ...options });
	} catch {
		throw new Failure(0, 'the daemon does not answer');
	}
	const body = await response.json().catch(() => null);

	if (!response.ok)
		throw new Failure(response.status, body?.message ?? `HTTP status ${response.status}`);
	return body;
}

function query(params) {
	const text = new URLSearchParams(Object.entries(params ?? {}).filter(([, v]) => v !== undefined && v !== null)).toString();

	return text ? `?${text}` : '';
}

export const call = (method, params) => ask(`/api/${method}${query(params)}`);

export const change = (method, params) => ask(`/api/${method}${query(params)}`,
	{ method: 'POST', headers: { 'X-Proctor-Action': session.action_token } });

// With the token of a link, which is then taken out of the address, or with the cookie.
export async function openSession() {
	const token = /^#link=([0-9a-f]+)$/.exec(location.hash)?.[1];

	if (token) {
		history.replaceState(null, '', '#/');
		session = await ask('/session', { method: 'POST', headers: { 'X-Proctor-Link': token } });
	} else {
		session = await ask('/session');
	}
	return session;
}

// Reads on where it broke off, also in a tab that was hidden; a browser has few connections.
export class Stream {
	constructor(onEvent, onState) {
		this.onEvent = onEvent;
		this.onState = onState;
		this.lastId = null;
		this.source = null;
		this.timer = null;
		document.addEventListener('visibilitychange', () => (document.hidden ? this.close() : this.open()));
		addEventListener('pagehide', () => this.close());
		this.open();
	}

	open() {
		if (this.source || document.hidden)
			return;
		clearTimeout(this.timer);
		const source = new EventSource(`/events${this.lastId ? `?after=${encodeURIComponent(this.lastId)}` : ''}`);

		this.source = source;
		source.onopen = () => this.onState(true);
		source.onerror = () => {
			this.close();
			this.onState(false);
			this.timer = setTimeout(() => this.open(), 1500);
		};
		for (const topic of topics)
			source.addEventListener(topic, (message) => {
				this.lastId = message.lastEventId;
				this.onEvent(topic, JSON.parse(message.data));
			});
	}

	close() {
		this.source?.close();
		this.source = null;
	}
}

const topics = ['missed', 'lost', 'snapshot', 'monitor.anomaly', 'sheet.started', 'sheet.completed', 'sheet.failed', 'job.queued',
	'job.held', 'job.started', 'job.completed', 'job.failed', 'job.cancelled', 'process.oom', 'process.kill', 'process.signal',
	'process.orphan', 'learn.pattern'];
