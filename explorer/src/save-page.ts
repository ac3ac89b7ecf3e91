/// The page as one file that opens with what it shows now.

import { encode, type State } from "./state";
import { withFileInside } from "./kept-report";

/// The name of the tag that holds the state of a saved page.
const TAG = "zellige-state";
/// The document as it arrived: this runs before anything is added to it.
const ARRIVED = document.documentElement.outerHTML;

/// The state that a saved page was saved with, as the part of a link behind `#`; empty for any other page.
export function savedState(): string {
  return document.querySelector<HTMLMetaElement>(`meta[name="${TAG}"]`)?.content ?? "";
}

/// The text of a page that shows a state when it is opened.
export async function pageWith(state: State): Promise<string> {
  const link = encode({ ...state, report: await withFileInside(state.report) });
  const value = link.replaceAll("&", "&amp;").replaceAll('"', "&quot;").replaceAll("<", "&lt;");
  const plain = ARRIVED.replace(new RegExp(`<meta name="${TAG}"[^>]*>`), "");
  return `<!doctype html>\n${plain.replace("</head>", () => `<meta name="${TAG}" content="${value}"></head>`)}`;
}
