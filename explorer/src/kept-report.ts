/// Reports that were opened from a file: kept in the link where they are small, else in the browser, so that a reload shows them again.

/// A file as it was opened.
export interface KeptFile { name: string; text: string }

/// Letters of a link that a report may take. Longer addresses are cut by chats and mail programs.
const LONGEST_IN_LINK = 12_000;
/// Before the name of an item of the browser's storage.
const STORED = "zellige-report-";

const toLetters = (bytes: Uint8Array): string => {
  let text = "";
  // In pieces, because every byte is an argument of the call.
  for (let at = 0; at < bytes.length; at += 8192) text += String.fromCharCode(...bytes.subarray(at, at + 8192));
  return btoa(text).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
};

const toBytes = (letters: string): Uint8Array<ArrayBuffer> =>
  Uint8Array.from(atob(letters.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));

async function pack(file: KeptFile): Promise<string> {
  const stream = new Blob([JSON.stringify(file)]).stream().pipeThrough(new CompressionStream("gzip"));
  return toLetters(new Uint8Array(await new Response(stream).arrayBuffer()));
}

async function unpack(letters: string): Promise<KeptFile> {
  const stream = new Blob([toBytes(letters)]).stream().pipeThrough(new DecompressionStream("gzip"));
  const found = JSON.parse(await new Response(stream).text()) as Partial<KeptFile>;
  if (typeof found.name !== "string" || typeof found.text !== "string") throw new Error("it holds no file");
  return { name: found.name, text: found.text };
}

/// Keeps a file. Answers the key for the link, and what a reader has to know about it.
export async function keepFile(file: KeptFile): Promise<{ key: string; note: string }> {
  const letters = await pack(file);
  if (letters.length <= LONGEST_IN_LINK) return { key: `z.${letters}`, note: "" };
  const hash = new Uint8Array(await digest(letters));
  const name = toLetters(hash).slice(0, 22);
  try {
    localStorage.setItem(STORED + name, letters);
    return { key: `k.${name}`, note: "This report is too long for a link. It is kept in this browser; a link to it works here only. \"Save page\" writes a file that holds it." };
  } catch {
    return { key: "k.not-kept", note: "This report is too long for a link, and the browser has no room to keep it: it is gone after a reload." };
  }
}

/// A digest where the browser has one for this page; a page from a disk may have none.
async function digest(text: string): Promise<ArrayBuffer> {
  const bytes = new TextEncoder().encode(text);
  if (crypto.subtle) return crypto.subtle.digest("SHA-256", bytes);
  // FNV-1a, 4 times with other starts: names need only differ.
  const words = new Uint32Array(4).map((_, i) => bytes.reduce((h, b) => Math.imul(h ^ b, 0x01000193) >>> 0, 0x811c9dc5 + i));
  return words.buffer;
}

/// The file of a key.
export async function readKept(key: string): Promise<KeptFile> {
  if (key.startsWith("z.")) return unpack(key.slice(2));
  const letters = key.startsWith("k.") ? localStorage.getItem(STORED + key.slice(2)) : null;
  if (letters === null) throw new Error("the report of this link is not in this browser; open its file again");
  return unpack(letters);
}

/// The same key with the file inside, for a page that leaves this browser.
export async function withFileInside(key: string): Promise<string> {
  return key.startsWith("k.") ? `z.${await pack(await readKept(key))}` : key;
}
