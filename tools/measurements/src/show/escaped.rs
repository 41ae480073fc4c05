//! Escapes text for HTML.

/// Escapes text for an element, or for an attribute in double quotes.
pub(super) fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace('"', "&quot;")
}
