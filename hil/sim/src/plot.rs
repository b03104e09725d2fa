//! Plots as SVG: the distribution of slowdowns, and series of queues and rates.

use crate::Picos;
use crate::fabric::{Quantity, Sample, Subject};
use crate::summary::{BINS, bin_name};
use hil_sorted::SortedMap;
use std::fmt::Write;

/// A plot of lines and dots.
#[derive(Default)]
struct Plot {
    title: String,
    /// What the axes show.
    labels: [String; 2],
    /// The horizontal axis is logarithmic; its values are above zero.
    is_log: bool,
    lines: Vec<Line>,
    dots: Vec<Dot>,
    /// What stands under the names of the lines.
    notes: Vec<String>,
}

/// A point that is marked.
struct Dot {
    at: (f64, f64),
    /// What a browser shows beside the pointer.
    title: String,
    /// What stands beside it; if that is empty, the dot is grey.
    label: String,
}

/// A line through points in the order of their first coordinates.
struct Line {
    name: String,
    points: Vec<(f64, f64)>,
}

/// The most lines of a plot, a colour each: those of Okabe and Ito ("Color Universal Design", 2008), which colour-blind readers tell
/// apart.
const COLOURS: [&str; 8] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#b8a800", "#000000"];

/// The area inside the axes, in pixels.
const LEFT: f64 = 80.0;
const TOP: f64 = 40.0;
const WIDTH: f64 = 600.0;
const HEIGHT: f64 = 320.0;

impl Plot {
    /// The plot. Its vertical axis begins at 0.
    fn svg(&self) -> String {
        let points = || self.lines.iter().flat_map(|line| &line.points).chain(self.dots.iter().map(|dot| &dot.at));
        let least = points().map(|&(x, _)| x).fold(f64::INFINITY, f64::min);
        let [most_x, most_y] = points().fold([f64::MIN, 0.0], |[x, y], point| [x.max(point.0), y.max(point.1)]);
        let (low, high) = if least < most_x { (least, most_x) } else { (least.min(1.0), least.min(1.0) + 1.0) };
        let top = if most_y > 0.0 { most_y } else { 1.0 };
        let scale = |x: f64| if self.is_log { x.ln() } else { x };
        let x_of = |x: f64| LEFT + WIDTH * (scale(x) - scale(low)) / (scale(high) - scale(low));
        let y_of = |y: f64| TOP + HEIGHT * (1.0 - y / top);
        let (right, bottom) = (LEFT + WIDTH, TOP + HEIGHT);
        let mut svg = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 920 420\" font-family=\"sans-serif\" font-size=\"12\">\n\
             <rect width=\"920\" height=\"420\" fill=\"#fff\"/>\n"
            .to_owned();
        let text = |x: f64, y: f64, anchor: &str, text: &str| {
            format!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>\n")
        };
        let mut texts = text(LEFT, TOP - 16.0, "start", &self.title);
        texts += &text(LEFT + WIDTH / 2.0, bottom + 38.0, "middle", &self.labels[0]);
        texts += &text(LEFT - 70.0, TOP - 16.0, "start", &self.labels[1]);
        let mut grid = String::new();
        for x in if self.is_log { log_ticks(low, high) } else { ticks(low, high) } {
            let _ = write!(grid, "M{:.1} {TOP}V{bottom}", x_of(x));
            texts += &text(x_of(x), bottom + 18.0, "middle", &number(x));
        }
        for y in ticks(0.0, top) {
            let _ = write!(grid, "M{LEFT} {:.1}H{right}", y_of(y));
            texts += &text(LEFT - 8.0, y_of(y) + 4.0, "end", &number(y));
        }
        let _ = writeln!(svg, "<path d=\"{grid}\" stroke=\"#ddd\" fill=\"none\"/>");
        let _ = writeln!(svg, "<path d=\"M{LEFT} {TOP}V{bottom}H{right}\" stroke=\"#000\" fill=\"none\"/>");
        for ((line, colour), row) in self.lines.iter().zip(COLOURS).zip(0u8..) {
            let points = line.points.iter().map(|&(x, y)| (x_of(x), y_of(y)));
            let _ = writeln!(
                svg,
                "<path d=\"{}\" stroke=\"{colour}\" stroke-width=\"1.5\" fill=\"none\"><title>{}</title></path>",
                path(points),
                line.name
            );
            let y = TOP + 10.0 + 20.0 * f64::from(row);
            let _ =
                writeln!(svg, "<path d=\"M{:.1} {y:.1}h20\" stroke=\"{colour}\" stroke-width=\"3\"/>", right + 16.0);
            texts += &text(right + 42.0, y + 4.0, "start", &line.name);
        }
        for Dot { at: (x, y), title, label } in &self.dots {
            let (x, y) = (x_of(*x), y_of(*y));
            let (radius, colour) = if label.is_empty() { (2.5, "#999") } else { (4.0, COLOURS[0]) };
            let _ = writeln!(
                svg,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\" fill=\"{colour}\"><title>{title}</title></circle>"
            );
            texts += &text(x + 6.0, y - 6.0, "start", label);
        }
        let first = TOP + 14.0 + 20.0 * self.lines.len() as f64;
        for (note, row) in self.notes.iter().zip(0u16..) {
            texts += &text(right + 16.0, first + 16.0 * f64::from(row), "start", note);
        }
        svg + &texts + "</svg>\n"
    }
}

/// The commands of a path through points. Of points in one column of pixels only the first, the lowest, the highest and the last are
/// drawn, which look like all.
fn path(points: impl Iterator<Item = (f64, f64)>) -> String {
    let mut columns: Vec<[(f64, f64); 4]> = Vec::new();
    for point in points {
        match columns.last_mut() {
            Some([first, low, high, last]) if first.0.floor() == point.0.floor() => {
                *low = if point.1 < low.1 { point } else { *low };
                *high = if point.1 > high.1 { point } else { *high };
                *last = point;
            }
            _ => columns.push([point; 4]),
        }
    }
    let drawn = columns.into_iter().flat_map(|[first, low, high, last]| {
        let extremes = [low, high].into_iter().filter(move |extreme| extreme.1 != first.1 && extreme.1 != last.1);
        [first].into_iter().chain(extremes).chain((last != first).then_some(last))
    });
    let mut path = String::new();
    for ((x, y), command) in drawn.zip(std::iter::once('M').chain(std::iter::repeat('L'))) {
        let _ = write!(path, "{command}{x:.1} {y:.1}");
    }
    path
}

/// Three to eight round numbers from `low` to `high`.
fn ticks(low: f64, high: f64) -> Vec<f64> {
    let rough = (high - low) / 4.0;
    let decade = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0].map(|part| part * decade).into_iter().rfind(|&step| step <= rough).unwrap_or(decade);
    let first = (low / step).ceil() as i64;
    (first..).map(|number| number as f64 * step).take_while(|&tick| tick <= high).collect()
}

/// 1, 2 and 5 times powers of ten.
fn log_ticks(low: f64, high: f64) -> Vec<f64> {
    let decades = low.log10().floor() as i32..=high.log10().ceil() as i32;
    let ticks = decades.flat_map(|decade| [1.0, 2.0, 5.0].map(|part| part * 10f64.powi(decade)));
    ticks.filter(|tick| (low..=high).contains(tick)).collect()
}

/// A number with a prefix of SI.
fn number(value: f64) -> String {
    let (unit, prefix) = match value.abs() {
        1e9.. => (1e9, " G"),
        1e6.. => (1e6, " M"),
        1e3.. => (1e3, " k"),
        _ => (1.0, ""),
    };
    // Whole steps of a thousandth, so that 0.30000000000000004 is 0.3.
    format!("{}{prefix}", (value / unit * 1e3).round() / 1e3)
}

/// The distribution of slowdowns by size of the flow: for each slowdown, the share of flows that have at most this one. `slowdowns` are
/// the bytes and the slowdown of each completed flow.
pub fn slowdowns(slowdowns: &[(u64, f64)]) -> String {
    let line = |bounds: &[u64]| {
        let (from, below) = (bounds[0], bounds[1]);
        let of_bin = slowdowns.iter().filter(|(bytes, _)| (from..below).contains(bytes));
        let mut sorted: Vec<f64> = of_bin.map(|&(_, slowdown)| slowdown).collect();
        sorted.sort_by(f64::total_cmp);
        let share = |number: usize| number as f64 / sorted.len() as f64;
        let steps = sorted.iter().enumerate().flat_map(|(number, &x)| [(x, share(number)), (x, share(number + 1))]);
        let points: Vec<_> = steps.collect();
        let name = format!("{}: {} flows", bin_name(from, (below != u64::MAX).then_some(below)), sorted.len());
        (!points.is_empty()).then_some(Line { name, points })
    };
    let lines = BINS.windows(2).filter_map(line).collect();
    let title = "slowdown of flows: their time over that in an empty network".to_owned();
    Plot { title, labels: ["slowdown".to_owned(), "share".to_owned()], is_log: true, lines, ..Plot::default() }.svg()
}

/// Values over something else: a line through points for each name, eight at most. The vertical axis begins at 0.
pub fn lines(title: String, label: String, lines: Vec<(String, Vec<(f64, f64)>)>) -> String {
    let lines = lines.into_iter().map(|(name, points)| Line { name, points }).collect();
    Plot { title, labels: [label, String::new()], lines, ..Plot::default() }.svg()
}

/// Dots of two quantities that are to be low, and which of them are the Pareto front: no other dot is as low in both.
#[derive(Clone, Copy, Debug)]
pub struct Front<'a> {
    /// The quantities.
    pub labels: [&'a str; 2],
    /// What names of dots consist of, in their order.
    pub varied: &'a [String],
    /// The dots.
    pub dots: &'a [(f64, f64)],
    /// Their names.
    pub names: &'a [String],
    /// The dots of the front, by their numbers, from the lowest first quantity to the highest.
    pub front: &'a [usize],
}

/// The most lines of text beside a front: those that fit.
const MOST_NOTES: usize = 21;

/// Two quantities with their Pareto front.
pub fn front(front: &Front<'_>) -> String {
    let escaped = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let named = || front.front.iter().zip(1..);
    let dots = front.dots.iter().zip(front.names).enumerate().map(|(number, (&at, name))| Dot {
        at,
        title: escaped(name),
        label: named().find(|(of_front, _)| **of_front == number).map_or(String::new(), |(_, place)| place.to_string()),
    });
    let settings =
        [format!("{} settings of", front.dots.len())].into_iter().chain(front.varied.iter().map(|name| escaped(name)));
    let notes = settings.chain(named().map(|(&number, place)| format!("{place}: {}", escaped(&front.names[number]))));
    // The front is the border of what the dots leave: from each of its dots level to the next, and down to it.
    let at = |&number: &usize| front.dots[number];
    let steps = front.front.windows(2).flat_map(|pair| [at(&pair[0]), (at(&pair[1]).0, at(&pair[0]).1)]);
    let points = steps.chain(front.front.last().map(at)).collect();
    Plot {
        labels: [escaped(front.labels[0]), escaped(front.labels[1])],
        lines: vec![Line { name: "Pareto front".to_owned(), points }],
        dots: dots.collect(),
        notes: notes.take(MOST_NOTES).collect(),
        is_log: front.dots.iter().all(|dot| dot.0 > 0.0),
        ..Plot::default()
    }
    .svg()
}

/// States of a run that are to be plotted over time.
#[derive(Debug, Default)]
pub struct States(SortedMap<Subject, Vec<(Picos, u64)>>);

impl States {
    /// Takes a sample. Those of one subject are all of one quantity.
    pub fn take(&mut self, sample: &Sample) {
        self.0.or_default(sample.subject).push((sample.at, sample.value));
    }

    /// The lines of the subjects that reach the largest values, of equal ones those that are longest above 0: eight at most.
    pub fn svg(&self, quantity: Quantity) -> String {
        let rank = |samples: &[(Picos, u64)]| {
            let peak = samples.iter().map(|&(_, value)| value).max();
            let above = samples.windows(2).filter(|pair| pair[0].1 > 0).map(|pair| pair[1].0 - pair[0].0);
            std::cmp::Reverse((peak, above.sum::<Picos>()))
        };
        let mut chosen: Vec<_> = self.0.iter().collect();
        chosen.sort_by_key(|(_, samples)| rank(samples));
        chosen.truncate(COLOURS.len());
        chosen.sort_by_key(|&(subject, _)| subject);
        let times = || self.0.values().flatten().map(|&(at, _)| at);
        let (begin, end) = (times().min().unwrap_or(0), times().max().unwrap_or(0));
        let micros = |at: Picos| (at - begin) as f64 / 1e6;
        let lines = chosen.into_iter().map(|(subject, samples)| {
            let mut points = vec![(0.0, 0.0)];
            for (at, value) in samples.iter().copied().chain([(end, samples[samples.len() - 1].1)]) {
                points.push((micros(at), points[points.len() - 1].1));
                points.push((micros(at), value as f64));
            }
            let name = match subject {
                Subject::Queue(node, port, class) => format!("node {node} port {port} class {class}"),
                Subject::Port(node, port) => format!("node {node} port {port}"),
                Subject::Flow(flow) => format!("flow {flow}"),
            };
            Line { name, points }
        });
        let shown = self.0.len().min(COLOURS.len());
        let title = format!("{}: the {shown} of {} with the highest peaks", quantity.name(), self.0.len());
        let labels = [format!("us after {:.6} s", begin as f64 / 1e12), String::new()];
        Plot { title, labels, lines: lines.collect(), ..Plot::default() }.svg()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The points of the lines of a plot, which are the paths that have a title.
    fn lines(svg: &str) -> Vec<Vec<(f64, f64)>> {
        let point = |text: &str| {
            let (x, y) = text.split_once(' ').unwrap();
            (x.parse().unwrap(), y.parse().unwrap())
        };
        let paths = svg.lines().filter(|line| line.starts_with("<path") && line.contains("<title>"));
        paths.map(|line| line.split('"').nth(1).unwrap().split(['M', 'L']).skip(1).map(point).collect()).collect()
    }

    /// Three flows below 10 kB with slowdowns of 1, 10 and 100: equal steps on a logarithmic axis, a third of the height each. The
    /// other flow has the largest slowdown of all.
    #[test]
    fn a_distribution_rises_by_the_share_of_a_flow() {
        let svg = slowdowns(&[(1, 10.0), (2, 100.0), (9_999, 1.0), (10_000, 1_000.0)]);
        let third = HEIGHT / 3.0;
        let at = |decades: f64, thirds: f64| {
            let round = |pixels: f64| (pixels * 10.0).round() / 10.0;
            (round(LEFT + WIDTH * decades / 3.0), round(TOP + HEIGHT - thirds * third))
        };
        let first = vec![at(0.0, 0.0), at(0.0, 1.0), at(1.0, 1.0), at(1.0, 2.0), at(2.0, 2.0), at(2.0, 3.0)];
        assert_eq!(lines(&svg), [first, vec![at(3.0, 0.0), at(3.0, 3.0)]]);
        assert!(svg.contains("below 10 kB: 3 flows") && svg.contains("10 kB to 100 kB: 1 flows"), "{svg}");
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
    }

    /// Of ten queues the eight with the largest peaks are drawn. A state holds until the next sample.
    #[test]
    fn states_are_steps_and_the_largest_are_drawn() {
        let mut states = States::default();
        for node in 0..10 {
            for (at, value) in [(1_000_000, 10 * u64::from(node)), (2_000_000, 5), (5_000_000, 0)] {
                let subject = Subject::Queue(node, 1, 3);
                states.take(&Sample { at, quantity: Quantity::Queue, subject, value });
            }
        }
        let svg = states.svg(Quantity::Queue);
        let lines = lines(&svg);
        assert_eq!(lines.len(), 8);
        assert!(
            svg.contains("queue_bytes: the 8 of 10 with the highest peaks") && !svg.contains("node 1 port"),
            "{svg}"
        );
        let (bottom, right) = (TOP + HEIGHT, LEFT + WIDTH);
        let five = TOP + HEIGHT * (1.0 - 5.0 / 90.0);
        let five = (five * 10.0).round() / 10.0;
        let quarter = LEFT + WIDTH / 4.0;
        let of_last = [(LEFT, bottom), (LEFT, TOP), (quarter, TOP), (quarter, five), (right, five), (right, bottom)];
        assert_eq!(lines[7], of_last);
        assert!(!States::default().svg(Quantity::Rate).contains("NaN"));
        assert!(!slowdowns(&[]).contains("NaN") && !slowdowns(&[(1, 1.0)]).contains("inf"));
    }

    /// Three dots, of which two are the front: on a logarithmic axis, with a step between them, and numbers beside them.
    #[test]
    fn a_front_is_a_step_between_numbered_dots() {
        let names = ["a", "b<", "c"].map(str::to_owned);
        let varied = ["x & y".to_owned()];
        let dots = [(1.0, 8.0), (10.0, 4.0), (100.0, 8.0)];
        let svg = front(&Front { labels: ["x", "y"], varied: &varied, dots: &dots, names: &names, front: &[0, 1] });
        let (middle, half) = (LEFT + WIDTH / 2.0, TOP + HEIGHT / 2.0);
        assert_eq!(lines(&svg), [[(LEFT, TOP), (middle, TOP), (middle, half)]]);
        assert_eq!((svg.matches("<circle").count(), svg.matches("fill=\"#999\"").count()), (3, 1));
        for text in [">3 settings of<", ">x &amp; y<", ">1: a<", ">2: b&lt;<", "<title>c</title>"] {
            assert!(svg.contains(text), "{text}: {svg}");
        }
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(ticks(0.0, 1.0).into_iter().map(number).collect::<Vec<_>>().join(" "), "0 0.2 0.4 0.6 0.8 1");
        assert_eq!(
            ticks(0.0, 401_120.0).into_iter().map(number).collect::<Vec<_>>().join(" "),
            "0 100 k 200 k 300 k 400 k"
        );
        assert_eq!(log_ticks(0.9, 21.0), [1.0, 2.0, 5.0, 10.0, 20.0]);
    }
}
