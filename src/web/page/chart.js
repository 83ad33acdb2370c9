// A chart over time: lines with the range of each pixel, ribbons for anomalies, a table of the same
// numbers, and a span that the user drags over. dygraphs draws it.

import { clock, el, moment, number, table } from './dom.js';

const COLOURS = 8;

// Its legend sets styles that the content policy refuses; the chart has its own.
let isPrepared = false;

function prepare() {
	if (!isPrepared)
		Dygraph.PLUGINS = Dygraph.PLUGINS.filter((plugin) => plugin !== Dygraph.Plugins.Legend);
	isPrepared = true;
}

function style(name) {
	return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

export const colour = (i) => style(`--line-${i % COLOURS}`);

// times: unix seconds. series: [{ name, low, high, mid }], arrays as long as times, null where
// nothing is known; low and high may be absent. ribbons: [{ from, to, label, onopen }].
export class Chart {
	constructor({ title, unit, format = (v) => number(v), height = 220, stacked = false, onspan = null }) {
		Object.assign(this, { title, unit, format, stacked, onspan });
		this.box = el('div', { class: 'plot' });
		this.box.style.height = `${height}px`;
		this.read = el('output', { class: 'read', 'aria-live': 'off' });
		this.ribbonRow = el('div', { class: 'ribbons' });
		this.details = el('details', {}, el('summary', {}, 'Table'));
		this.details.addEventListener('toggle', () => this.fillTable());
		this.reset = el('button', { type: 'button', class: 'small', hidden: true, onclick: () => this.zoom(null) }, 'Whole range');
		this.node = el('figure', { class: 'chart' },
			el('figcaption', {}, el('strong', {}, title), ' ', el('span', { class: 'quiet' }, unit), this.read, this.reset),
			this.ribbonRow, el('div', { 'aria-hidden': 'true' }, this.box), this.details);
		this.window = null;
		this.observer = new ResizeObserver(() => {
			this.graph?.resize();
			this.placeRibbons();
		});
		this.observer.observe(this.box);
	}

	set(times, series, ribbons = [], marks = []) {
		Object.assign(this, { times, series, ribbons, marks });
		if (!this.box.isConnected) {
			requestAnimationFrame(() => this.box.isConnected && this.draw());
			return;
		}
		this.draw();
	}

	rows() {
		return this.times.map((t, i) => [new Date(t * 1000), ...this.series.map((s) => {
			const mid = s.mid[i] ?? null;

			if (this.stacked)
				return mid;
			return mid === null ? [null, null, null] : [s.low?.[i] ?? mid, mid, s.high?.[i] ?? mid];
		})]);
	}

	draw() {
		const self = this;

		this.graph?.destroy();
		this.graph = null;
		if (this.times.length === 0 || this.series.length === 0) {
			this.box.replaceChildren(el('p', { class: 'quiet' }, 'Nothing was measured in this span.'));
			return;
		}
		this.box.replaceChildren();
		prepare();
		this.graph = new Dygraph(this.box, this.rows(), {
			labels: ['time', ...this.series.map((s, i) => `${i}`)],
			customBars: !this.stacked,
			stackedGraph: this.stacked,
			fillGraph: this.stacked,
			fillAlpha: 0.35,
			colors: this.series.map((s, i) => s.colour ?? colour(i)),
			strokeWidth: this.series.length > 12 ? 1 : 1.5,
			legend: 'never',
			gridLineColor: style('--grid'),
			axisLineColor: style('--grid'),
			axisLabelFontSize: 11,
			labelsKMB: false,
			includeZero: true,
			animatedZooms: false,
			dateWindow: this.window ? [this.window[0] * 1000, this.window[1] * 1000] : null,
			highlightCircleSize: 3,
			axes: {
				x: { axisLabelFormatter: (d) => this.axisTime(d), pixelsPerLabel: 80 },
				y: { axisLabelFormatter: (v) => this.format(v), axisLabelWidth: 64 },
			},
			highlightCallback(event, x, points) {
				const known = points.filter((p) => p.yval !== null && !Number.isNaN(p.yval));
				const near = known.toSorted((a, b) => b.yval - a.yval).slice(0, 4);

				self.read.replaceChildren(clock(x / 1000), ...near.map((p) => el('span', {},
					el('i', { class: `dot c${Number(p.name) % COLOURS}` }), `${self.series[Number(p.name)].name} `,
					el('b', {}, self.format(p.yval)))));
			},
			unhighlightCallback: () => this.read.replaceChildren(),
			zoomCallback: (from, to) => this.zoomed(from / 1000, to / 1000),
			drawCallback: (graph) => {
				this.graph = graph;
				this.placeRibbons();
			},
			underlayCallback: (canvas, area, g) => this.underlay(canvas, area, g),
		});
		if (this.details.open)
			this.fillTable();
	}

	axisTime(d) {
		const [from, to] = this.range();

		return to - from > 86400 * 2 ? moment(d.getTime() / 1000).slice(5, 16) : clock(d.getTime() / 1000).slice(0, to - from > 600 ? 5 : 8);
	}

	range() {
		return this.window ?? [this.times[0], this.times[this.times.length - 1]];
	}

	zoomed(from, to) {
		const all = [this.times[0], this.times[this.times.length - 1]];

		this.window = from <= all[0] && to >= all[1] ? null : [from, to];
		this.reset.hidden = !this.window;
		this.onspan?.(this.window);
	}

	zoom(window) {
		this.window = window;
		this.reset.hidden = !window;
		this.graph?.updateOptions({ dateWindow: window ? window.map((t) => t * 1000) : null });
		this.onspan?.(window);
	}

	underlay(canvas, area, g) {
		for (const ribbon of this.ribbons) {
			const left = g.toDomXCoord(ribbon.from * 1000), right = g.toDomXCoord((ribbon.to ?? this.range()[1]) * 1000);

			canvas.fillStyle = style(ribbon.severe ? '--ribbon-severe' : '--ribbon');
			canvas.fillRect(left, area.y, Math.max(2, right - left), area.h);
		}
		for (const mark of this.marks) {
			const x = g.toDomXCoord(mark.time * 1000);

			canvas.strokeStyle = style('--bad');
			canvas.setLineDash([4, 3]);
			canvas.beginPath();
			canvas.moveTo(x, area.y);
			canvas.lineTo(x, area.y + area.h);
			canvas.stroke();
			canvas.setLineDash([]);
		}
	}

	placeRibbons() {
		const [from, to] = this.range();

		if (!this.graph || !this.ribbons?.length) {
			this.ribbonRow.replaceChildren();
			return;
		}
		const area = this.graph.getArea();

		this.ribbonRow.replaceChildren(...this.ribbons.filter((r) => (r.to ?? to) >= from && r.from <= to).map((r) => {
			const left = Math.max(0, this.graph.toDomXCoord(Math.max(r.from, from) * 1000));
			const right = this.graph.toDomXCoord(Math.min(r.to ?? to, to) * 1000);
			const button = el('button', { type: 'button', class: r.severe ? 'ribbon severe' : 'ribbon', title: r.label, onclick: r.onopen }, r.label);

			button.style.left = `${Math.min(left, area.x + area.w - 40)}px`;
			button.style.width = `${Math.max(40, right - left)}px`;
			return button;
		}));
	}

	fillTable() {
		if (!this.details.open || !this.times)
			return;
		const step = Math.max(1, Math.ceil(this.times.length / 60));
		const at = this.times.map((t, i) => i).filter((i) => i % step === 0 && this.times[i] >= this.range()[0] && this.times[i] <= this.range()[1]);

		this.details.replaceChildren(el('summary', {}, 'Table'), table(`${this.title}, ${this.unit}`,
			['time', ...this.series.map((s) => ({ text: s.name, class: 'n' }))],
			at.map((i) => [moment(this.times[i]), ...this.series.map((s) => this.format(s.mid[i] ?? null))])));
	}

	destroy() {
		this.observer.disconnect();
		this.graph?.destroy();
		this.graph = null;
	}
}
