// The session, the address, the keys, and the view that is shown.

import { openSession, Stream } from './api.js';
import { Compare } from './compare.js';
import { el } from './dom.js';
import { Job } from './job.js';
import { Overview } from './overview.js';
import { Patterns } from './patterns.js';
import { Ranks } from './ranks.js';

const main = document.getElementById('main'), nav = document.getElementById('nav');
const live = document.getElementById('live'), search = document.getElementById('search');
const views = [['', 'Overview', 'o'], ['compare', 'Compare', 'c'], ['patterns', 'Patterns', 'p']];
const store = { ring: [], search: '', onFailure };
let view = null, isAway = false;

function onFailure(failure) {
	if (failure.status === 401) {
		showLogin(failure.message);
		return;
	}
	if (failure.status === 0) {
		setLive(false);
		return;
	}
	console.warn(failure.message);
	document.getElementById('failure')?.remove();
	main.prepend(el('p', { id: 'failure', class: 'failure', role: 'alert' }, failure.message, ' ',
		el('button', { type: 'button', class: 'small', onclick: (e) => e.target.parentNode.remove() }, 'Close')));
}

function showLogin() {
	view?.destroy();
	view = null;
	main.replaceChildren(el('div', { class: 'login' }, el('h1', {}, 'No session'),
		el('p', {}, 'A terminal on this host opens one: '), el('pre', {}, 'proctor web'),
		el('p', { class: 'quiet' }, 'The link that it prints is valid once, for a minute. Each user sees their own jobs.')));
}

function setLive(isOn) {
	live.className = isOn ? 'on' : 'off';
	live.textContent = isOn ? 'live' : 'the daemon is away';
}

// ---- the address: #/VIEW/JOB/ATTEMPT?OPTIONS ----

function route() {
	const [path, options] = location.hash.replace(/^#\/?/, '').split('?');
	const [name, job, attempt] = path.split('/').map((part) => {
		try {
			return decodeURIComponent(part);
		} catch {
			return ''; // not what a link of this page has
		}
	});
	const given = new URLSearchParams(options ?? '');

	view?.destroy();
	view = name === 'job' && job ? new Job(store, job, attempt, given)
		: name === 'ranks' && job ? new Ranks(store, job, attempt)
			: name === 'compare' ? new Compare(store, given)
				: name === 'patterns' ? new Patterns(store) : new Overview(store);
	document.title = job ? `${job} · proctor` : 'proctor';
	nav.replaceChildren(...views.map(([to, label]) => el('a', { href: `#/${to}`, 'aria-current': to === (name ?? '') ? 'page' : null }, label)));
	main.replaceChildren(view.node);
	search.value = '';
	store.search = '';
	view.load().catch(onFailure);
}

function onState(isOn) {
	setLive(isOn);
	// What happened meanwhile is in the record.
	if (isOn && isAway)
		view?.load().catch(onFailure);
	isAway = !isOn;
}

function onEvent(topic, event) {
	if (topic === 'missed' || topic === 'lost')
		view?.load().catch(onFailure);
	else
		view?.onEvent(topic, event);
	if (topic === 'snapshot' && !(view instanceof Overview))
		store.last = event.data;
}

// ---- keys, theme ----

function setTheme(theme) {
	document.documentElement.dataset.theme = theme;
	localStorage.setItem('theme', theme);
}

function toggleTheme() {
	const isDark = document.documentElement.dataset.theme === 'dark'
		|| (!document.documentElement.dataset.theme && matchMedia('(prefers-color-scheme: dark)').matches);

	setTheme(isDark ? 'light' : 'dark');
	view?.chart?.draw();
}

addEventListener('keydown', (event) => {
	if (event.key === 'Escape' && event.target === search) {
		search.value = '';
		search.dispatchEvent(new Event('input'));
		search.blur();
	}
	if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName))
		return;
	const to = views.find(([, , key]) => key === event.key);

	if (event.key === '/') {
		event.preventDefault();
		search.focus();
	} else if (event.key === 't') {
		toggleTheme();
	} else if (to) {
		location.hash = `#/${to[0]}`;
	}
});

search.addEventListener('input', () => {
	store.search = search.value.trim().toLowerCase();
	view?.onSearch(store.search);
});

document.getElementById('theme').addEventListener('click', toggleTheme);
if (localStorage.getItem('theme'))
	setTheme(localStorage.getItem('theme'));

try {
	const session = await openSession();

	document.getElementById('who').textContent = `proctor ${session.version}, seen by ${session.user ?? `uid ${session.uid}`}`;
	addEventListener('hashchange', () => (location.hash.startsWith('#link=') ? location.reload() : route()));
	route();
	new Stream(onEvent, onState);
} catch (failure) {
	if (failure.status === 401 || failure.status === 403)
		showLogin(failure.message);
	else
		onFailure(failure);
}
