package test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv/proof"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testnode"
	"github.com/stagedoor/stagedoor/sandbox/gate"
)

// jobView is a job as the API shows it.
type jobView struct {
	ID, State string
	Progress  struct {
		AccountsDone, AccountsTotal, Items, Failed int
		Percent                                    int
	}
	Error any
}

func (j jobView) isOver() bool {
	return j.State == "completed" || j.State == "completed_with_errors" || j.State == "failed" || j.State == "cancelled"
}

// request sends a request to a random node until one responds.
func (s *callsFixture) request(method, path, media string, body []byte) testnode.Reply {
	s.t.Helper()
	for range 600 {
		req, err := http.NewRequestWithContext(s.t.Context(), method, s.nodes[rand.IntN(len(s.nodes))].URL+path, bytes.NewReader(body))
		must.OK(s.t, err)
		req.Header.Set("Authorization", "Bearer "+s.owner.Key)
		if body != nil {
			req.Header.Set("Content-Type", media)
		}
		if r, err := testnode.Send(req); err == nil && r.Status < http.StatusInternalServerError {
			return r
		}
		<-time.After(100 * time.Millisecond)
	}
	s.t.Fatalf("%s %s: no node responds", method, path)
	return testnode.Reply{}
}

func (s *callsFixture) job(method, path, media string, body []byte) jobView {
	s.t.Helper()
	r := s.request(method, path, media, body)
	var got struct{ Job jobView }
	if err := json.Unmarshal(r.Body, &got); err != nil || r.Status >= http.StatusMultipleChoices {
		s.t.Fatalf("%s %s: %d %.300s", method, path, r.Status, r.Body)
	}
	return got.Job
}

func (s *callsFixture) startJob(body map[string]any) jobView {
	s.t.Helper()
	text, err := json.Marshal(body)
	must.OK(s.t, err)
	return s.job(http.MethodPost, "/v1/jobs", "application/json", text)
}

// resultLine is a line of an export or of a bulk job.
type resultLine struct {
	Index     int
	AccountID string
	Result    *struct{ Text string }
	Item      *struct{ User struct{ ID string } }
	Problem   *struct{ Code, Outcome string }
}

func (s *callsFixture) jobResult(id string) (lines []resultLine) {
	s.t.Helper()
	r := s.request(http.MethodGet, "/v1/jobs/"+id+"/result", "", nil)
	unpack, err := gzip.NewReader(bytes.NewReader(r.Body))
	must.OK(s.t, err)
	scan := bufio.NewScanner(unpack)
	scan.Buffer(nil, 1<<20)
	for scan.Scan() {
		var l resultLine
		must.OK(s.t, json.Unmarshal(scan.Bytes(), &l))
		lines = append(lines, l)
	}
	must.OK(s.t, scan.Err())
	return lines
}

// fans returns the ids of all fans of a creator, by calling the API directly.
func (s *callsFixture) fans(c *connected) map[string]bool {
	s.t.Helper()
	ids, cursor := map[string]bool{}, ""
	for {
		args := map[string]any{"limit": 100}
		if cursor != "" {
			args["cursor"] = cursor
		}
		text, err := json.Marshal(args)
		must.OK(s.t, err)
		r := s.request(http.MethodPost, "/v1/accounts/"+c.account+"/fans/list", "application/json", text)
		var page struct {
			Result struct {
				Items      []struct{ User struct{ ID string } }
				NextCursor string
			}
		}
		if err := json.Unmarshal(r.Body, &page); err != nil || r.Status != http.StatusOK {
			s.t.Fatalf("fans of %s: %d %.300s", c.login, r.Status, r.Body)
		}
		for _, one := range page.Result.Items {
			ids[one.User.ID] = true
		}
		if cursor = page.Result.NextCursor; cursor == "" {
			return ids
		}
	}
}

// killUntilOver kills a node every few seconds until the jobs are over.
func (s *callsFixture) killUntilOver(every time.Duration, jobs []jobView) (kills int) {
	s.t.Helper()
	for n := 0; ; n++ {
		over := 0
		for i, j := range jobs {
			jobs[i] = s.job(http.MethodGet, "/v1/jobs/"+j.ID, "", nil)
			if jobs[i].isOver() {
				over++
			}
		}
		if over == len(jobs) {
			return kills
		}
		// In CI each node is killed once. A proof kills until the end.
		if proof.Running() || n > 0 && n <= len(s.nodes) {
			p := s.nodes[n%len(s.nodes)].Process
			p.Kill()
			p.Start()
			kills++
		}
		<-time.After(every)
	}
}

// Nodes are killed while a bulk job writes and an export reads. Every item of the bulk job has one line, and was carried
// out exactly once if the line has a result, never if the line has a problem, and at most once if its outcome is unknown.
// The export has every fan of every account once.
func TestJobsSurviveKilledNodes(t *testing.T) {
	// Not parallel: its load would slow down other tests.
	s := newCallsFixture(t, setting("STAGEDOOR_TEST_ACCOUNTS", proof.Scale(3, 200)))
	count := setting("STAGEDOOR_TEST_ITEMS", proof.Scale(300, 10_000))
	// A slow platform, so that calls are in progress when a node dies.
	if _, err := s.platform.Gate.Faults.Add(gate.Fault{Scope: "all", Kind: gate.Latency, Value: 150}, 0); err != nil {
		t.Fatal(err)
	}
	began := time.Now()

	bulk := s.startJob(map[string]any{"kind": "bulk", "method": "messages.send"})
	var items bytes.Buffer
	texts := make([]string, count)
	for i := range count {
		c := s.creators[i%len(s.creators)]
		texts[i] = fmt.Sprintf("job item %d", i)
		must.OK(t, json.NewEncoder(&items).Encode(map[string]any{"accountId": c.account, "args": map[string]any{"chatId": c.chat, "text": texts[i]}}))
	}
	bulk = s.job(http.MethodPut, "/v1/jobs/"+bulk.ID+"/items", "application/x-ndjson", items.Bytes())
	again := s.job(http.MethodPut, "/v1/jobs/"+bulk.ID+"/items", "application/x-ndjson", items.Bytes())
	if again.ID != bulk.ID {
		t.Errorf("the same upload made job %s of %s", again.ID, bulk.ID)
	}
	export := s.startJob(map[string]any{"kind": "export", "method": "fans.list", "args": map[string]any{"limit": 50}})
	jobs := []jobView{bulk, export}
	kills := s.killUntilOver(proof.Scale(time.Second, 5*time.Second), jobs)
	for _, n := range s.nodes {
		n.AwaitReady(t)
	}
	took := time.Since(began)
	s.platform.Gate.Faults.Clear("")

	lines, unknown, failed := s.jobResult(bulk.ID), 0, 0
	seen := map[int]bool{}
	sent := map[string]map[string]int{}
	for _, l := range lines {
		c := s.creators[l.Index%len(s.creators)]
		if sent[c.account] == nil {
			sent[c.account] = s.countMessages(c)
		}
		if seen[l.Index] || l.AccountID != c.account {
			t.Errorf("item %d has two lines, or that of another account: %+v", l.Index, l)
		}
		seen[l.Index] = true
		switch n := sent[c.account][texts[l.Index]]; {
		case n > 1:
			t.Errorf("item %d was carried out %d times", l.Index, n)
		case l.Result != nil && (n != 1 || l.Result.Text != texts[l.Index]):
			t.Errorf("item %d has the result %+v, but was carried out %d times", l.Index, l.Result, n)
		case l.Problem != nil && l.Problem.Outcome == "unknown":
			unknown++
		case l.Problem != nil:
			if failed++; n != 0 {
				t.Errorf("item %d has the problem %s, but was carried out", l.Index, l.Problem.Code)
			}
		}
	}
	if len(seen) != count || jobs[0].Progress.Items != count || jobs[0].Progress.Failed != unknown+failed || jobs[0].State == "failed" {
		t.Errorf("%d of %d items have a line; the job: %+v", len(seen), count, jobs[0])
	}

	got := map[string]map[string]bool{}
	for _, l := range s.jobResult(export.ID) {
		if l.Item == nil {
			t.Errorf("the export of %s ended early: %+v", l.AccountID, l.Problem)
			continue
		}
		if got[l.AccountID] == nil {
			got[l.AccountID] = map[string]bool{}
		}
		if got[l.AccountID][l.Item.User.ID] {
			t.Errorf("fan %s of %s is in the export twice", l.Item.User.ID, l.AccountID)
		}
		got[l.AccountID][l.Item.User.ID] = true
	}
	fans := 0
	for _, c := range s.creators {
		want := s.fans(c)
		fans += len(want)
		if missing := len(want) - len(got[c.account]); missing != 0 {
			t.Errorf("%d of %d fans of %s are missing", missing, len(want), c.login)
		}
	}
	t.Logf("%d kills in %s: %d items, each at most once, of which %d have an unknown outcome and %d failed; export of %d fans of %d accounts, each once; %s",
		kills, took.Round(time.Second), count, unknown, failed, fans, len(s.creators), strings.ToLower(jobs[1].State))
}
