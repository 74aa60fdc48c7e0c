package stagedoor_test

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"testing"

	stagedoor "github.com/stagedoor/stagedoor/client/go"
)

func TestItemsOfJobsAreLines(t *testing.T) {
	t.Parallel()
	s := serve(t, stagedoor.Options{}, func(w http.ResponseWriter, _ *http.Request, _ int) {
		fmt.Fprint(w, `{"job":{"id":"job_1","state":"queued"}}`)
	})
	job, err := s.client.Jobs.PutItems(t.Context(), "job_1", []stagedoor.JobItem{{AccountID: "acct_1", Args: map[string]any{"text": "a"}}, {AccountID: "acct_2"}})
	if err != nil || job.ID != "job_1" {
		t.Fatal(job, err)
	}
	first, second := `{"accountId":"acct_1","args":{"text":"a"}}`, `{"accountId":"acct_2"}` // the server reads the first value
	size := strconv.Itoa(len(first) + len(second) + 2)
	if asked := s.requests()[0]; asked.path != "/v1/jobs/job_1/items" || asked.header.Get("Content-Type") != "application/x-ndjson" ||
		asked.body != first || asked.header.Get("Content-Length") != size {
		t.Errorf("%+v", asked)
	}
}

func TestResultsOfJobsAreDownloads(t *testing.T) {
	t.Parallel()
	s := serve(t, stagedoor.Options{}, func(w http.ResponseWriter, _ *http.Request, _ int) {
		w.Header().Set("ETag", `"x"`)
		w.Header().Set("Content-Type", "application/gzip")
		w.WriteHeader(http.StatusPartialContent)
		fmt.Fprint(w, "rest")
	})
	file, err := s.client.Jobs.GetResult(t.Context(), "job_1", stagedoor.DownloadOptions{Range: "bytes=5-", IfRange: `"x"`})
	if err != nil {
		t.Fatal(err)
	}
	defer file.Body.Close()
	if got, err := io.ReadAll(file.Body); err != nil || string(got) != "rest" || file.Status != 206 || file.ETag != `"x"` {
		t.Errorf("%q, %+v, %v", got, file, err)
	}
	asked := s.requests()[0]
	if asked.path != "/v1/jobs/job_1/result" || asked.header.Get("Range") != "bytes=5-" || asked.header.Get("If-Range") != `"x"` {
		t.Errorf("%+v", asked)
	}
}
