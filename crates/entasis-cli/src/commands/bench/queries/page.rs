//! The figures as a page: self-contained, a bar for each query.

use std::fmt::Write;

use super::super::clock::geometric_mean;
use super::figures::Figures;

const WIDTH: f64 = 520.0;
const ROW: f64 = 22.0;

/// The page.
pub fn of(all: &[Figures]) -> String {
    let mut page = String::from(HEAD);
    let mean = geometric_mean(all.iter().map(|one| one.ratio.median));
    let unplanned = geometric_mean(all.iter().map(|one| one.without_planning));
    // Writing into a string never fails.
    let _ = write!(
        page,
        "<p>CPU time of {} queries in DataFusion, Entasis over the better way to read Parquet: geometric mean \
         <b>{mean:.2}</b>, without planning <b>{unplanned:.2}</b>. Shorter bars are better; the line is as fast as Parquet, whiskers are \
         95 % intervals.</p>",
        all.len()
    );
    page.push_str(&bars(all));
    page.push_str("<table><tr><th>query</th><th>answer</th><th>rows</th>");
    for contender in all.iter().take(1).flat_map(|one| &one.contenders) {
        let _ = write!(page, "<th>{}, ms</th><th>read, MB</th>", contender.name);
    }
    page.push_str("<th>SQL</th></tr>");
    for one in all {
        let _ = write!(page, "<tr><td>{}</td><td>{}</td><td>{}</td>", one.number, one.agreement, one.rows);
        for contender in &one.contenders {
            let megabytes = contender.bytes_read as f64 / 1e6;
            let _ = write!(page, "<td>{:.1}</td><td>{megabytes:.1}</td>", contender.cpu * 1e3);
        }
        let _ = write!(page, "<td class=sql>{}</td></tr>", escaped(&one.sql));
    }
    page.push_str("</table>\n");
    page
}

/// Ratios on a logarithmic scale from 1/32 to 4.
fn bars(all: &[Figures]) -> String {
    let place = |ratio: f64| ((ratio.clamp(1.0 / 32.0, 4.0).log2() + 5.0) / 7.0) * WIDTH;
    let height = ROW * all.len() as f64 + 24.0;
    let mut svg = format!("<svg viewBox='-60 0 {} {height}' width='{}'>", WIDTH + 120.0, WIDTH + 120.0);
    for (ratio, label) in [(0.0625, "1/16"), (0.25, "1/4"), (0.5, "1/2"), (1.0, "1"), (2.0, "2"), (4.0, "4")] {
        let x = place(ratio);
        let kind = if ratio == 1.0 { "one" } else { "tick" };
        let _ = write!(svg, "<line class={kind} x1='{x:.1}' x2='{x:.1}' y1='0' y2='{:.1}'/>", height - 20.0);
        let _ = write!(svg, "<text class=axis x='{x:.1}' y='{:.1}'>{label}</text>", height - 6.0);
    }
    for (index, one) in all.iter().enumerate() {
        let y = ROW * index as f64;
        let (low, end, high) = (place(one.ratio.low), place(one.ratio.median), place(one.ratio.high));
        let middle = y + ROW / 2.0;
        let kind = if one.is_slower() { "slower" } else { "bar" };
        let _ = write!(svg, "<text class=name x='-8' y='{:.1}'>{}</text>", middle + 4.0, one.number);
        let _ = write!(svg, "<rect class={kind} x='0' y='{:.1}' width='{end:.1}' height='{:.1}'/>", y + 3.0, ROW - 6.0);
        let _ = write!(svg, "<line class=spread x1='{low:.1}' x2='{high:.1}' y1='{middle:.1}' y2='{middle:.1}'/>");
        let _ = write!(
            svg,
            "<text class=value x='{:.1}' y='{:.1}'>{:.2}</text>",
            high + 6.0,
            middle + 4.0,
            one.ratio.median
        );
    }
    svg + "</svg>"
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

const HEAD: &str = "<!doctype html><meta charset=utf-8><title>Queries on Entasis and on Parquet</title>
<style>
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; color: #222; background: #fff }
table { border-collapse: collapse; font-size: 13px; margin-top: 1.5rem }
td, th { padding: 3px 8px; border-bottom: 1px solid #ddd; text-align: right; vertical-align: top }
td.sql { text-align: left; font-family: ui-monospace, monospace; font-size: 12px; word-break: break-word }
svg { max-width: 100%; height: auto } svg text { font-size: 12px; fill: #333 }
.name { text-anchor: end } .axis { text-anchor: middle; fill: #777 }
.bar { fill: #3b7dd8 } .slower { fill: #d8553b } .spread { stroke: #111; stroke-width: 1.5 }
.tick { stroke: #e4e4e4 } .one { stroke: #333; stroke-dasharray: 3 3 }
</style>
<h1>Queries on Entasis and on Parquet</h1>
";
