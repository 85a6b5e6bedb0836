// Calls the command for each event, and says in the conversation what went wrong.
import { spawn } from "node:child_process";

const PATIENCE = 15_000; // milliseconds; the command itself ends after ten seconds

function call(folder, event) {
  return new Promise((resolve, reject) => {
    const keep = process.env.COLONY_MEMORY_KEEP ? ["--keep", process.env.COLONY_MEMORY_KEEP] : [];
    const words = ["hook", "--format", "openclaw", "--timeout", "10s", ...keep, folder];
    const child = spawn("colony-memory", words, { stdio: ["pipe", "pipe", "ignore"], timeout: PATIENCE });
    let answer = "";
    child.stdout.setEncoding("utf8");
    child.stdout.on("data", (piece) => (answer += piece));
    child.stdin.on("error", () => {});
    child.on("error", reject);
    child.on("close", (code) => (code === 0 ? resolve(JSON.parse(answer)) : reject(new Error(`exit code ${code}`))));
    child.stdin.end(JSON.stringify({ hook_event_name: event }));
  });
}

export default async function handler(event) {
  const folder = process.env.COLONY_MEMORY_FOLDER;
  if (!folder) return;
  try {
    const answer = await call(folder, `${event.type}:${event.action}`);
    if (answer.hookSpecificOutput) console.log(`[colony-memory] ${answer.hookSpecificOutput.additionalContext}`);
    if (answer.systemMessage) event.messages?.push(answer.systemMessage);
  } catch (error) {
    event.messages?.push(`colony-memory: the memory was not saved: ${error.message}`);
  }
}
