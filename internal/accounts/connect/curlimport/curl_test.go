package curlimport_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/internal/accounts/connect/curlimport"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

func hosts() []string { return []string{"stage.example", "127.0.0.1:18443"} }

// flat renders a session in one line, for tables.
func flat(p curlimport.Pasted) string {
	return strings.Join([]string{p.Host, pairs(p.Cookies), pairs(p.Headers), p.UserAgent}, " | ")
}

func pairs(m map[string]secret.String) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		out = append(out, name+"="+m[name].Reveal())
	}
	return strings.Join(out, "; ")
}

const (
	chromeBash = `curl 'https://stage.example/api/v2/me?x=1&y=2' \
  -H 'accept: application/json, text/plain, */*' \
  -H 'accept-language: en-GB,en;q=0.9' \
  -b 'auth_id=42; sess=a1b2%3D; fp=77' \
  -H 'sec-ch-ua: "Chromium";v="140", "Not=A?Brand";v="24"' \
  -H 'user-agent: Mozilla/5.0 (X11; Linux x86_64)' \
  -H 'x-bc: dev-1'`
	chromeCmd = `curl ^"https://stage.example/api/v2/me?x=1^&y=2^" ^
  -H ^"accept: */*^" ^
  -b ^"auth_id=42; sess=a1b2^%^3D; fp=77^" ^
  -H ^"sec-ch-ua: ^\^"Chromium^\^";v=^\^"140^\^"^" ^
  -H ^"user-agent: Mozilla/5.0 (Windows NT 10.0; Win64; x64)^" ^
  -H ^"x-bc: dev-1^"`
	chromePowerShell = "$session = New-Object Microsoft.PowerShell.Commands.WebRequestSession\n" +
		"$session.UserAgent = \"Mozilla/5.0 (Windows NT 10.0; Win64; x64)\"\n" +
		"$session.Cookies.Add((New-Object System.Net.Cookie(\"auth_id\", \"42\", \"/\", \".stage.example\")))\n" +
		"$session.Cookies.Add((New-Object System.Net.Cookie(\"sess\", \"a1b2%3D\", \"/\", \"stage.example\")))\n" +
		"$session.Cookies.Add((New-Object System.Net.Cookie(\"_ga\", \"1\", \"/\", \".other.example\")))\n" +
		"Invoke-WebRequest -UseBasicParsing -Uri \"https://stage.example/api/v2/me\" `\n" +
		"-WebSession $session `\n-Headers @{\n\"authority\"=\"stage.example\"\n  \"method\"=\"GET\"\n  \"path\"=\"/api/v2/me\"\n  \"scheme\"=\"https\"\n" +
		"  \"sec-ch-ua\"=\"`\"Chromium`\";v=`\"140`\"\"\n  \"x-bc\"=\"dev-1\"\n}"
	safari = `curl 'https://stage.example/api/v2/me' \
-X 'GET' \
-H 'Accept: */*' \
-H 'Cookie: sess=a1b2; auth_id=42' \
-H 'User-Agent: Mozilla/5.0 (Macintosh) Version/18.0 Safari/605.1.15' \
-H 'X-BC: dev-1'`
	firefox = `curl 'https://stage.example/api/v2/me' --compressed -H 'User-Agent: Mozilla/5.0 (X11; rv:143.0) Firefox/143.0' -H 'Accept: */*' -H 'Accept-Encoding: gzip, deflate, br, zstd' -H 'Connection: keep-alive' -H 'Cookie: auth_id=42; sess=a1b2'`
)

func goodCommands() map[string][2]string {
	const plain = "stage.example | sess=1 |  | "
	return map[string][2]string{
		"Chrome, bash":                   {chromeBash, `stage.example | auth_id=42; fp=77; sess=a1b2%3D | accept=application/json, text/plain, */*; accept-language=en-GB,en;q=0.9; sec-ch-ua="Chromium";v="140", "Not=A?Brand";v="24"; x-bc=dev-1 | Mozilla/5.0 (X11; Linux x86_64)`},
		"Chrome, bash, lines of Windows": {strings.ReplaceAll(chromeBash, "\n", "\r\n"), `stage.example | auth_id=42; fp=77; sess=a1b2%3D | accept=application/json, text/plain, */*; accept-language=en-GB,en;q=0.9; sec-ch-ua="Chromium";v="140", "Not=A?Brand";v="24"; x-bc=dev-1 | Mozilla/5.0 (X11; Linux x86_64)`},
		"Chrome, cmd":                    {chromeCmd, `stage.example | auth_id=42; fp=77; sess=a1b2%3D | accept=*/*; sec-ch-ua="Chromium";v="140"; x-bc=dev-1 | Mozilla/5.0 (Windows NT 10.0; Win64; x64)`},
		"Chrome, cmd, lines of Windows":  {strings.ReplaceAll(chromeCmd, "\n", "\r\n"), `stage.example | auth_id=42; fp=77; sess=a1b2%3D | accept=*/*; sec-ch-ua="Chromium";v="140"; x-bc=dev-1 | Mozilla/5.0 (Windows NT 10.0; Win64; x64)`},
		"Chrome, PowerShell":             {chromePowerShell, `stage.example | auth_id=42; sess=a1b2%3D | sec-ch-ua="Chromium";v="140"; x-bc=dev-1 | Mozilla/5.0 (Windows NT 10.0; Win64; x64)`},
		"Chrome, PowerShell with a body": {"Invoke-WebRequest -UseBasicParsing -Uri \"https://stage.example/\" `\n-Method \"POST\" `\n-Headers @{\n\"cookie\"=\"sess=1\"\n} `\n-ContentType \"application/json\" `\n-Body \"{`\"a`\":1}\"", plain},
		"Chrome, PowerShell with bytes":  {"Invoke-WebRequest -Uri \"https://stage.example/\" -Headers @{\"cookie\"=\"sess=1\"} -Body ([System.Text.Encoding]::UTF8.GetBytes(\"$([char]233)\"))", plain},
		"PowerShell beyond ASCII":        {"Invoke-RestMethod -Uri \"https://stage.example/\" -Headers @{\"x-bc\"=\"caf$([char]233) $([char]55357)$([char]56832)\"; 'y'='it''s'} -UserAgent 'a'", "stage.example |  | x-bc=café 😀; y=it's | a"},
		"Safari":                         {safari, "stage.example | auth_id=42; sess=a1b2 | accept=*/*; x-bc=dev-1 | Mozilla/5.0 (Macintosh) Version/18.0 Safari/605.1.15"},
		"Firefox, bash":                  {firefox, "stage.example | auth_id=42; sess=a1b2 | accept=*/*; accept-encoding=gzip, deflate, br, zstd; connection=keep-alive | Mozilla/5.0 (X11; rv:143.0) Firefox/143.0"},
		"Firefox, cmd, one line":         {`curl "https://stage.example/" --compressed -H "X-A: say ""hi""" -H "Cookie: sess=a"%"3D"`, `stage.example | sess=a%3D | x-a=say "hi" | `},
		"cmd, plain quotes over lines":   {"curl \"https://stage.example/?a=1&b=2\" ^\n -H \"Cookie: sess=1\"", plain},
		"cmd, a line's end in a body":    {"curl ^\"https://stage.example/^\" ^\n -b ^\"sess=1^\" ^\n --data-raw ^\"a^\n\nb^\"", plain},
		"curl.exe in PowerShell":         {"curl.exe 'https://stage.example/' `\n  -b 'sess=1' `\n  -H \"x-a: `\"q`\"\"", `stage.example | sess=1 | x-a="q" | `},
		"curl.exe in cmd":                {`curl.exe "https://stage.example/" -b "sess=1"`, plain},
		"escapes of $'..'":               {`curl 'https://stage.example/' -b $'sess=a\u0021b\'c\x21\041' -H $'x-bc: caf\xe9 \ud83d\ude00'`, "stage.example | sess=a!b'c!! | x-bc=café 😀 | "},
		"bytes of UTF-8 in $'..'":        {`curl 'https://stage.example/' -b 'sess=1' -A $'caf\xc3\xa9'`, "stage.example | sess=1 |  | café"},
		"double quotes in bash":          {`curl "https://stage.example/" -b "sess=1" -H "x-a: say \"hi\" \n"`, `stage.example | sess=1 | x-a=say "hi" \n | `},
		"joined quotes in bash":          {`curl https://stage.example/ -b 'sess='\''1'\'''`, "stage.example | sess='1' |  | "},
		"options that share a word":      {`curl -skL -XPOST -bsess=1 -H'x-a: b' https://stage.example/`, "stage.example | sess=1 | x-a=b | "},
		"--url, --data and the like":     {`curl --url https://stage.example/ --cookie 'sess=1' --request POST -d a=1 --data b --data-raw '@c' --data-binary d --data-ascii e --data-urlencode 'f=@g' -k -L -s`, plain},
		"the default port":               {`curl https://STAGE.example.:443/ -b sess=1`, plain},
		"another port":                   {`curl https://127.0.0.1:18443/ -b sess=1`, "127.0.0.1:18443 | sess=1 |  | "},
		"http":                           {`curl http://stage.example/ -b sess=1`, plain},
		"the header beats the option":    {`curl https://stage.example/ -b sess=1 -H 'User-Agent: b' -A a`, "stage.example | sess=1 |  | b"},
		"headers without a value":        {`curl https://stage.example/ -b sess=1 -H 'x-a;' -H 'x-b:' -H ':authority: stage.example'`, "stage.example | sess=1 | x-a=; x-b= | "},
		"the first of a name":            {`curl https://stage.example/ -b 'sess=1; sess=2' -H 'cookie: sess=3; fp=4'`, "stage.example | fp=4; sess=1 |  | "},
		"braces, brackets and signs":     {`curl 'https://stage.example/?a[]={1}' -b 'sess=1' -d {a} -d a#b -d '#;&|<>($[{'`, plain},
		"a dollar that is escaped":       {`curl https://stage.example/ -b "sess=\$(1" -H x-a:\$'b\'`, `stage.example | sess=$(1 | x-a=$b\ | `},
		"no cookies":                     {`curl https://stage.example/`, "stage.example |  |  | "},
		"a Host header":                  {`curl https://stage.example/ -b sess=1 -H 'Host: stage.example'`, "stage.example | sess=1 | host=stage.example | "},
		"a byte order mark":              {"\ufeff curl https://stage.example/ -b sess=1 \n", plain},
	}
}

func TestCurlReadsWhatBrowsersCopy(t *testing.T) {
	t.Parallel()
	for name, c := range goodCommands() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := curlimport.Curl(secret.New(c[0]), hosts())
			must.OK(t, err)
			if flat(got) != c[1] {
				t.Errorf("got  %s\nwant %s", flat(got), c[1])
			}
		})
	}
}

// canary is in the place of a secret; no error may contain it.
const canary = "c4n4rys3cr3t"

type badCommand struct {
	text, code, detail string
}

func badCommands() []badCommand {
	const ok = "curl 'https://stage.example/' -b 'sess=" + canary + "' "
	invoke := "Invoke-WebRequest -Uri \"https://stage.example/\" -Headers @{\"cookie\"=\"sess=" + canary + "\"} "
	unparseable, unsupported, host := "curl-unparseable", "curl-unsupported", "curl-wrong-host"
	return []badCommand{
		{"", unparseable, "no command"},
		{"  \n", unparseable, "no command"},
		{"fetch('https://stage.example/', {headers: {cookie: '" + canary + "'}})", unparseable, "start with curl"},
		{"https://stage.example/" + canary, unparseable, "start with curl"},
		{"wget https://stage.example/" + canary, unparseable, "start with curl"},
		{"curl", unparseable, "one URL"},
		{ok + "https://stage.example/", unparseable, "one URL"},
		{ok + strings.Repeat("x", 64<<10), unparseable, "64 KiB"},
		{ok + "\xff", unparseable, "UTF-8"},
		{ok + "\x00.", unparseable, "NUL"},
		{ok + "; rm -rf /" + canary, unparseable, "more than one"},
		{ok + "\nrm " + canary, unparseable, "more than one"},
		{ok + "&& echo " + canary, unparseable, "more than one"},
		{ok + "| sh", unparseable, "more than one"},
		{ok + "&", unparseable, "more than one"},
		{ok + "> /tmp/" + canary, unparseable, "redirect"},
		{ok + "< /etc/passwd", unparseable, "redirect"},
		{ok + "<<< " + canary, unparseable, "redirect"},
		{ok + "-H \"x: $(cat " + canary + ")\"", unparseable, "evaluate"},
		{ok + "-H \"x: `cat " + canary + "`\"", unparseable, "evaluate"},
		{ok + "-H $HOME", unparseable, "evaluate"},
		{ok + "-H \"x: ${" + canary + "}\"", unparseable, "evaluate"},
		{ok + "-H $((1+1))", unparseable, "evaluate"},
		{ok + "-d <(cat " + canary + ")", unparseable, "evaluate"},
		{ok + strings.Repeat("$(", 20000), unparseable, "evaluate"},
		{ok + "-H \"$('\"'" + strings.Repeat("$[", 20000), unparseable, "evaluate"},
		{ok + "# '\n" + strings.Repeat("$[", 20000), unparseable, "comment"},
		{ok + "; " + strings.Repeat("if ", 20000), unparseable, "more than one"},
		{ok + `-H \$'a\' ` + strings.Repeat("$[", 20000), unparseable, "evaluate"},
		{ok + `-H $$'a\' ` + strings.Repeat("$[", 20000), unparseable, "evaluate"},
		{ok + "-H \"" + strings.Repeat("$\\\n[", 10000), unparseable, "evaluate"},
		{ok + "(" + canary, unparseable, "evaluate"},
		{ok + "-H $\"x: " + canary + "\"", unparseable, "evaluate"},
		{"curl 'https://stage.example/' -b 'sess=" + canary, unparseable, "not closed"},
		{"curl \"https://stage.example/" + canary, unparseable, "not closed"},
		{ok + ")" + canary, unparseable, "shell syntax"},
		{ok + "-H", unparseable, "has no value"},
		{ok + "--header", unparseable, "has no value"},
		{ok + "-H " + canary, unparseable, "colon"},
		{ok + "-H 'a b: " + canary + "'", unparseable, "name"},
		{ok + `-H $'x: a\r\ny: ` + canary + `'`, unparseable, "control"},
		{ok + `-A $'a\n` + canary + `'`, unparseable, "control"},
		{"curl 'https://stage.example:x" + canary + "/'", unparseable, "not a URL"},
		{"curl 'https://" + canary + ":pw@stage.example/'", unparseable, "user name"},
		{ok + "-o " + canary, unsupported, "-o "},
		{ok + "-K " + canary, unsupported, "-K "},
		{ok + "-x " + canary, unsupported, "-x "},
		{ok + "-u a:" + canary, unsupported, "-u "},
		{ok + "-sSo" + canary, unsupported, "-S "},
		{ok + "--proxy http://" + canary, unsupported, "--proxy "},
		{ok + "--proxy=http://" + canary, unsupported, "--proxy "},
		{ok + "--header=x:" + canary, unsupported, "--header with an equals"},
		{ok + "--next", unsupported, "--next "},
		{ok + "--config " + canary, unsupported, "--config "},
		{ok + "--" + canary, unsupported, "unknown"},
		{ok + "-- " + canary, unsupported, "-- "},
		{ok + "- ", unsupported, "- "},
		{ok + "-é" + canary, unsupported, "not a letter"},
		{ok + "-d @" + canary, unsupported, "@file"},
		{ok + "--data-binary @" + canary, unsupported, "@file"},
		{ok + "--data-urlencode a@" + canary, unsupported, "@file"},
		{ok + "-H @" + canary, unsupported, "@file"},
		{"curl https://stage.example/ -b " + canary, unsupported, "-b with a file"},
		{"curl https://" + canary + ".example/", host, "does not belong"},
		{"curl https://stage.example." + canary + ".net/", host, "does not belong"},
		{"curl https://x.stage.example/" + canary, host, "does not belong"},
		{"curl https://stage.example:8443/" + canary, host, "does not belong"},
		{"curl https://127.0.0.1/" + canary, host, "does not belong"},
		{"curl file:///etc/" + canary, host, "https://"},
		{"curl stage.example/" + canary, host, "https://"},
		{ok + "-H 'Host: " + canary + "'", host, "Host header"},
		{"curl ^\"https://stage.example/^\" ^\n -b ^\"sess=" + canary + "^\" & calc", unparseable, "more than one"},
		{"curl ^\"https://stage.example/^\" -b ^\"sess=" + canary + "^\"\ncalc", unparseable, "more than one"},
		{"curl ^\"https://stage.example/^\" -b ^\"sess=" + canary, unparseable, "not closed"},
		{"curl ^\"https://stage.example/^\" -b ^\"sess=" + canary + "^\" ^", unparseable, "incomplete"},
		{"curl \"https://stage.example/\" ^\n -b \"sess=" + canary + "\n\"", unparseable, "not closed"},
		{"curl ^\"https://stage.example/^\" -o ^\"" + canary + "^\"", unsupported, "-o "},
		{"curl.exe 'https://stage.example/' `\n -b 'sess=" + canary, unparseable, "not closed"},
		{"curl.exe 'https://stage.example/' -b \"$" + canary + "\"", unparseable, "evaluate"},
		{"curl.exe 'https://stage.example/' -b $" + canary, unparseable, "evaluate"},
		{"curl.exe 'https://stage.example/' (" + canary + ")", unparseable, "evaluate"},
		{"curl.exe 'https://stage.example/'; " + canary, unparseable, "more than one"},
		{"curl.exe 'https://stage.example/' | " + canary, unparseable, "more than one"},
		{"curl.exe 'https://stage.example/'" + canary, unparseable, "evaluate"},
		{invoke + "-OutFile " + canary, unsupported, "-OutFile "},
		{invoke + "-proxy \"" + canary + "\"", unsupported, "-Proxy "},
		{invoke + "-" + canary, unsupported, "unknown"},
		{invoke + "; " + canary, unparseable, "more than one"},
		{invoke + "| " + canary, unparseable, "more than one"},
		{invoke + "-Body \"$(" + canary + ")\"", unparseable, "evaluate"},
		{invoke + "-Body \"$([char]" + canary + ")\"", unparseable, "evaluate"},
		{invoke + "-Body \"" + canary, unparseable, "not closed"},
		{invoke + canary, unparseable, "Copy as PowerShell"},
		{"Invoke-WebRequest -Uri \"https://stage.example/\" -Headers @{\"a\"=\"" + canary + "\"", unparseable, "Copy as PowerShell"},
		{"Invoke-WebRequest -Uri \"https://stage.example/\" -Headers @{\"a\"=\"`n" + canary + "\"}", unparseable, "control"},
		{"$session = New-Object " + canary, unparseable, "Copy as PowerShell"},
		{"$session = New-Object Microsoft.PowerShell.Commands.WebRequestSession", unparseable, "no Invoke-WebRequest"},
		{"$session.Cookies.Add((New-Object System.Net.Cookie(\"a\", \"" + canary + ";\", \"/\", \"stage.example\")))", unparseable, "semicolon"},
		{"$session.Cookies.Add((New-Object System.Net.Cookie(\"a\", \"" + canary + "\")))", unparseable, "Copy as PowerShell"},
		{"Invoke-WebRequest -Uri \"https://" + canary + ".net/\"", host, "does not belong"},
	}
}

func TestCurlRefusesEverythingElseAndRepeatsNothing(t *testing.T) {
	t.Parallel()
	for _, c := range badCommands() {
		t.Run(c.detail, func(t *testing.T) {
			t.Parallel()
			got, err := curlimport.Curl(secret.New(c.text), hosts())
			e, ok := errors.AsType[*problem.Error](err)
			if !ok {
				t.Fatalf("%.200q: got %v, want a problem", c.text, flat(got))
			}
			if e.Kind.Code != c.code || !strings.Contains(e.Detail, c.detail) {
				t.Errorf("%.200q: got %v, want %s with %q", c.text, err, c.code, c.detail)
			}
			if len(e.Fields) != 1 || e.Fields[0].Pointer != "/curl" {
				t.Errorf("%.200q: fields are %v, want one at /curl", c.text, e.Fields)
			}
			document, docErr := e.Document(problem.Place{ProblemsURL: "https://x.example", Instance: "urn:x"})
			if docErr != nil {
				t.Fatal(docErr)
			}
			if strings.Contains(err.Error()+string(document), canary) {
				t.Errorf("%.200q: the error repeats the text: %s", c.text, document)
			}
			if len(got.Cookies)+len(got.Headers) != 0 {
				t.Errorf("%.200q: a result in addition to the error", c.text)
			}
		})
	}
}
