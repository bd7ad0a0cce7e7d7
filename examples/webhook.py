#!/usr/bin/env python3
"""TOKEN=... webhook.py PORT: whoever has the token answers, for you, what flows wait for.

    curl -H "Authorization: Bearer $TOKEN" --data-urlencode run=RUN 127.0.0.1:PORT/approve
    curl -H "Authorization: Bearer $TOKEN" --data-urlencode run=RUN --data-urlencode text=TEXT 127.0.0.1:PORT/answer

With step=STEP as well, if several wait. Only this host reaches it; what is to come from
elsewhere comes through a server of yours that speaks TLS.
"""
import hmac, http.server, os, subprocess, sys, threading, time, urllib.parse

EXPECTED = b"Bearer " + os.environ["TOKEN"].encode()
if len(os.environ["TOKEN"]) < 32:
    sys.exit("webhook.py: TOKEN is too short: make one with openssl rand -hex 32")
FIELDS = {"/approve": ["run", "step"], "/answer": ["run", "step", "text"]}

def go_on(run):
    for _ in range(60):  # who carries it on already (5) hears the answer, but may be about to end
        if subprocess.run(["bothy", "flow", "resume", "--", run]).returncode != 5:
            return
        time.sleep(1)

class Receiver(http.server.BaseHTTPRequestHandler):
    timeout = 10  # seconds without a word

    def do_POST(self):
        if not hmac.compare_digest(self.headers.get("Authorization", "").encode("utf-8", "replace"), EXPECTED):
            return self.tell(403, "who are you?")
        length = self.headers.get("Content-Length", "")
        if self.path not in FIELDS or not length.isdecimal() or len(length) > 5:
            return self.tell(404, "POST a form of less than 100 kB to /approve or /answer")
        form = urllib.parse.parse_qs(self.rfile.read(int(length)).decode("utf-8", "replace"))
        if "run" not in form or "text" in FIELDS[self.path] and "text" not in form:
            return self.tell(400, "the form lacks run, or text")
        words = [form[name][0] for name in FIELDS[self.path] if name in form]
        # No shell, and behind -- nothing is a flag: what was sent is data.
        done = subprocess.run(["bothy", "flow", self.path[1:], "--", *words], capture_output=True, text=True)
        if done.returncode == 0:
            threading.Thread(target=go_on, args=[words[0]]).start()
        self.tell(400 if done.returncode else 200, done.stderr)

    def tell(self, code, text):
        self.send_response(code)
        self.end_headers()
        self.wfile.write(text.encode())

http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Receiver).serve_forever()
