//! The part of the page with the results under faults, and the holders of the lock around each
//! fault.

use std::fmt::Write as _;

use crate::show::escaped::escaped;
use crate::{
    report::{OfFault, OfStore, Proof},
    show::{plots::Failed, timeline},
};

pub(super) fn write(page: &mut String, proof: &Proof) -> Result<(), Failed> {
    let faults = proof.faults();
    page.push_str(
        "<h2>Under faults</h2><p><i>holds</i>: one holder at a time, tokens that grow, a fence that \
         loses no update, every loss reported, every waiter served, nothing left behind. <i>two \
         holders</i>: the store does not promise exclusion under this fault, and the run saw two.</p>\
         <div class=\"wide\"><table class=\"text\"><thead><tr><th>store</th>",
    );
    for fault in &faults {
        write!(page, "<th>{}</th>", escaped(fault))?;
    }
    page.push_str("</tr></thead><tbody>");
    for store in &proof.stores {
        write!(page, "<tr><th>{}</th>", escaped(&store.store))?;
        for fault in &faults {
            match store.faults.iter().find(|each| each.fault == *fault) {
                Some(result) => write_cell(page, store, result)?,
                None => page.push_str("<td class=\"none\">not tried</td>"),
            }
        }
        page.push_str("</tr>");
    }
    page.push_str("</tbody></table></div>");
    for store in &proof.stores {
        write_store(page, store)?;
    }
    Ok(())
}

fn write_cell(page: &mut String, store: &OfStore, result: &OfFault) -> std::fmt::Result {
    let word = result.in_short();
    let class = if word == "holds" { "" } else { " class=\"bad\"" };
    write!(
        page,
        "<td{class} data-proof=\"{}\" data-fault=\"{}\" data-granted=\"{}\" data-lost=\"{}\">{word}",
        escaped(&store.store),
        escaped(&result.fault),
        result.granted,
        result.lost
    )?;
    if let Some(freed) = result.freed_after_ms {
        write!(page, "<br>held again after {freed} ms")?;
    }
    page.write_str("</td>")
}

fn write_store(page: &mut String, store: &OfStore) -> Result<(), Failed> {
    write!(page, "<details><summary>{}: each fault</summary>", escaped(&store.store))?;
    for result in &store.faults {
        let cells: Vec<_> =
            result.cells.iter().map(|(name, cell)| format!("{name}: {cell}")).collect();
        write!(
            page,
            "<h4>{}</h4><p>{} runs, {} grants, {} losses reported, at most {} ms after the validity \
             ended; {} stale writes refused. {}</p>",
            escaped(&result.fault),
            result.seeds.len(),
            result.granted,
            result.lost,
            result.reported_late_ms,
            result.stale_refused,
            escaped(&cells.join(", "))
        )?;
        let bad = result.failed.iter().chain(&result.violations);
        bad.into_iter().try_for_each(|bad| write!(page, "<pre>{}</pre>", escaped(bad)))?;
        if let Some(timeline) = &result.timeline {
            let caption = escaped(&timeline.name);
            let svg = timeline::plot(timeline)?;
            write!(page, "<figure>{svg}<figcaption>The lock {caption}.</figcaption></figure>")?;
        }
    }
    page.push_str("</details>");
    Ok(())
}
