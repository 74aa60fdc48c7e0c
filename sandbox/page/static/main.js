// Starts every part of the page.
import * as creators from './creators.js';
import { toast } from './dom.js';
import * as fan from './fan.js';
import * as frames from './frames.js';
import * as requests from './requests.js';
import * as signins from './signins.js';
import * as time from './time.js';
import * as trouble from './trouble.js';

async function start() {
  const words = await (await fetch('/page/words.json')).json();
  creators.start(words);
  fan.start(words);
  frames.start();
  signins.start();
  trouble.start(words);
  time.start();
  requests.start();
  creators.reset(() => [creators, signins, trouble, time, requests].forEach((part) => part.refresh()));
  creators.onList((logins) => {
    trouble.offer(logins);
    requests.offer(logins);
  });
}

start().catch((failure) => toast(`The page could not start: ${failure.message}`, true));
