// Client of /control. Every failure is an Error whose message can be shown to the user.

export const domain = '@sandbox.test';

// Digits holds a number that JavaScript cannot represent exactly: the platform's ids have 19 digits.
export class Digits {
  constructor(text) { this.text = text; }
}

function encode(body) {
  const fields = Object.entries(body).filter(([, value]) => value !== undefined && value !== '');
  return `{${fields.map(([name, value]) => `${JSON.stringify(name)}:${value instanceof Digits ? value.text : JSON.stringify(value)}`).join(',')}}`;
}

export async function control(method, path, body) {
  let response;
  try {
    response = await fetch(`/control${path}`, {
      method, cache: 'no-store', ...(body && { body: encode(body), headers: { 'Content-Type': 'application/json' } }),
    });
  } catch {
    throw new Error('The sandbox is not responding. Is sandboxd running?');
  }
  const answer = await response.json().catch(() => null);
  if (response.ok && answer !== null) return answer;
  throw new Error(words(response.status, answer?.error));
}

// words turns a refusal into a message for the user.
function words(status, error) {
  if (error?.message === 'no such login') return `This is not a sandbox login: a login must end in ${domain}.`;
  if (error?.code === 2004) return 'The sandbox can be controlled from its own machine only. Open this page there.';
  if (!error?.message) return `The sandbox answered ${status} without a reason. Check its log.`;
  const message = error.message.charAt(0).toUpperCase() + error.message.slice(1);
  return (/[.!?]$/.test(message) ? message : `${message}.`) + (error.field ? ` (${error.field})` : '');
}

// loginOf completes a typed login: ok+2 becomes ok+2@sandbox.test.
export function loginOf(typed) {
  const login = typed.trim().toLowerCase();
  return login && !login.includes('@') ? login + domain : login;
}
