//! The plot: latency and throughput by buffer timeout, as SVG.

use std::fmt::Write;

use crate::job::Variant;
use crate::report::Point;

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 800.0;
const TOP: f64 = 50.0;
const BOTTOM: f64 = 350.0;
/// Colours of the variants; throughput is dashed.
const COLOURS: [&str; 2] = ["#1f6fb4", "#d4691e"];

/// Draws the points: p99 latency in a logarithmic scale at the left, lines a second of CPU time at the right.
pub fn svg(points: &[Point], events_per_second: u64) -> String {
    let labels = labels(points);
    let p99 = |p: &Point| (p.paced.latency.quantile_ns(0.99) as f64 / 1e6).max(0.01);
    let (low, high) = bounds(points.iter().map(p99));
    let rate = |p: &Point| p.flat_out.throughput_a_core() / 1e6;
    let most = points.iter().map(rate).fold(1.0, f64::max).ceil();
    let log_y = |ms: f64| BOTTOM - (ms / low).log10() / (high / low).log10() * (BOTTOM - TOP);
    let rate_y = |millions: f64| BOTTOM - millions / most * (BOTTOM - TOP);
    let mut out = head(events_per_second);
    axes(&mut out, &labels, (low, high), most);
    for (variant, colour) in Variant::ALL.into_iter().zip(COLOURS) {
        let of_variant: Vec<&Point> = points.iter().filter(|p| p.variant == variant).collect();
        let x = |p: &Point| {
            let at = labels.iter().position(|l| *l == p.label()).unwrap_or(0);
            LEFT + 40.0 + at as f64 * step(&labels)
        };
        line(&mut out, of_variant.iter().map(|p| (x(p), log_y(p99(p)))), colour, "");
        let dashed = "stroke-dasharray=\"5 4\"";
        line(&mut out, of_variant.iter().map(|p| (x(p), rate_y(rate(p)))), colour, dashed);
    }
    legend(&mut out);
    out.push_str("</svg>\n");
    out
}

fn labels(points: &[Point]) -> Vec<String> {
    let mut labels: Vec<String> = Vec::new();
    for point in points {
        if !labels.contains(&point.label()) {
            labels.push(point.label());
        }
    }
    labels
}

fn step(labels: &[String]) -> f64 {
    (RIGHT - LEFT - 80.0) / (labels.len().max(2) - 1) as f64
}

/// Powers of ten around the values.
fn bounds(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (low, high) = values.fold((f64::MAX, 0.1_f64), |(l, h), v| (l.min(v), h.max(v)));
    let (low, high) = (low.min(high).log10().floor(), high.log10().ceil());
    (10_f64.powf(low), 10_f64.powf(high.max(low + 1.0)))
}

fn head(events_per_second: u64) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"{LEFT}\" y=\"24\" font-size=\"15\">Latency at {events_per_second} lines/s and throughput \
         by buffer timeout</text>\n"
    )
}

fn axes(out: &mut String, labels: &[String], (low, high): (f64, f64), most: f64) {
    let mut put = |text: String| {
        out.push_str(&text);
        out.push('\n');
    };
    put(format!(
        "<path d=\"M{LEFT} {TOP} V{BOTTOM} H{RIGHT} V{TOP}\" fill=\"none\" stroke=\"#444\"/>"
    ));
    let decades = (high / low).log10().round() as i32;
    for decade in 0..=decades {
        let ms = low * 10_f64.powi(decade);
        let y = BOTTOM - f64::from(decade) / f64::from(decades) * (BOTTOM - TOP);
        put(format!(
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{ms}</text>",
            LEFT - 8.0,
            y + 4.0
        ));
        put(format!("<path d=\"M{LEFT} {y} H{RIGHT}\" stroke=\"#ddd\"/>"));
    }
    for part in 0..=4 {
        let millions = most * f64::from(part) / 4.0;
        let y = BOTTOM - f64::from(part) / 4.0 * (BOTTOM - TOP);
        put(format!("<text x=\"{}\" y=\"{}\">{millions:.1}</text>", RIGHT + 8.0, y + 4.0));
    }
    for (at, label) in labels.iter().enumerate() {
        let x = LEFT + 40.0 + at as f64 * step(labels);
        put(format!(
            "<text x=\"{x}\" y=\"{}\" text-anchor=\"middle\">{label}</text>",
            BOTTOM + 18.0
        ));
    }
    let y = (TOP + BOTTOM) / 2.0;
    put(format!(
        "<text transform=\"translate(24 {y}) rotate(-90)\" text-anchor=\"middle\">p99 latency, ms</text>"
    ));
    put(format!(
        "<text transform=\"translate({} {y}) rotate(-90)\" text-anchor=\"middle\">million lines/s a core</text>",
        WIDTH - 10.0
    ));
}

fn line(out: &mut String, points: impl Iterator<Item = (f64, f64)>, colour: &str, style: &str) {
    let points: Vec<(f64, f64)> = points.collect();
    let path: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    // Writing to a string cannot fail.
    let _ = writeln!(
        out,
        "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" {style}/>",
        path.join(" ")
    );
    for (x, y) in points {
        let _ = writeln!(out, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>");
    }
}

fn legend(out: &mut String) {
    let mut x = LEFT;
    for (variant, colour) in Variant::ALL.into_iter().zip(COLOURS) {
        for (what, style) in [("p99", ""), ("throughput", "stroke-dasharray=\"5 4\"")] {
            let (y, end) = (HEIGHT - 20.0, x + 30.0);
            let _ = writeln!(
                out,
                "<path d=\"M{x} {y} H{end}\" stroke=\"{colour}\" stroke-width=\"2\" {style}/>\
                 <text x=\"{}\" y=\"{}\">{variant}: {what}</text>",
                end + 6.0,
                y + 4.0
            );
            x += 180.0;
        }
    }
}
