package stagedoor_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	stagedoor "github.com/stagedoor/stagedoor/client/go"
)

func attempt(state string) string {
	return fmt.Sprintf(`{"attempt_id":"att_1","state":%q,"poll_after_sec":3}`, state)
}

func TestWaitForUsesLongPolling(t *testing.T) {
	t.Parallel()
	s := serve(t, stagedoor.Options{}, func(w http.ResponseWriter, _ *http.Request, n int) {
		switch n {
		case 0:
			w.Header().Set("ETag", `"1"`)
			respond(w, attempt("pending"))
		case 1:
			w.Header().Set("ETag", `"1"`)
			w.WriteHeader(http.StatusNotModified)
		case 2:
			w.Header().Set("ETag", `"2"`)
			respond(w, attempt("needs_otp"))
		default:
			respond(w, attempt("completed_failed"))
		}
	})
	a, err := s.client.Connect.WaitFor(t.Context(), "att_1", stagedoor.UntilAction)
	if err != nil || a.State != "needs_otp" {
		t.Fatalf("%+v, %v", a, err)
	}
	all := s.requests()
	if len(all) != 3 || all[0].query != "" || all[2].query != "wait=25" || all[2].header.Get("If-None-Match") != `"1"` {
		t.Errorf("%+v", all)
	}
	if a, err = s.client.Connect.WaitFor(t.Context(), "att_1", func(*stagedoor.Attempt) bool { return false }); err != nil || a.State != "completed_failed" {
		t.Errorf("ended attempt: %+v, %v", a, err)
	}
}

func TestWaitForPollsAtTheRequestedInterval(t *testing.T) {
	t.Parallel()
	states := []string{"pending", "pending", "completed_success"}
	s := serve(t, stagedoor.Options{},
		func(w http.ResponseWriter, _ *http.Request, n int) { respond(w, attempt(states[n])) })
	if a, err := s.client.Connect.WaitFor(t.Context(), "att_1", stagedoor.UntilEnd); err != nil || a.State != "completed_success" {
		t.Fatalf("%+v, %v", a, err)
	}
	if waits := s.waits(); len(waits) != 2 || waits[0] > 3*time.Second || waits[0] < 2*time.Second {
		t.Errorf("waited %v", waits)
	}
}

func TestWatchReconnectsAndYieldsEveryStateOnce(t *testing.T) {
	t.Parallel()
	s := serve(t, stagedoor.Options{}, func(w http.ResponseWriter, _ *http.Request, n int) {
		frame := "event: attempt\ndata: %s\n\n"
		push(w, fmt.Sprintf(frame, attempt("pending")))
		if n > 0 {
			push(w, fmt.Sprintf(frame, attempt("completed_success")))
		}
	})
	var states []string
	for a, err := range s.client.Connect.Watch(t.Context(), "att_1") {
		if err != nil {
			t.Fatal(err)
		}
		states = append(states, a.State)
	}
	if strings.Join(states, " ") != "pending completed_success" {
		t.Errorf("%v", states)
	}
}

func TestWatchYieldsPermanentProblem(t *testing.T) {
	t.Parallel()
	s := serve(t, stagedoor.Options{},
		func(w http.ResponseWriter, _ *http.Request, _ int) { respondProblem(w, 404, "attempt-not-found", "") })
	for _, err := range s.client.Connect.Watch(t.Context(), "att_1") {
		if !stagedoor.IsProblem(err, "attempt-not-found") {
			t.Error(err)
		}
	}
}

func TestUploadAndDownload(t *testing.T) {
	t.Parallel()
	s := serve(t, stagedoor.Options{}, func(w http.ResponseWriter, r *http.Request, n int) {
		switch {
		case r.Method == http.MethodPut:
			respond(w, `{"part":{"number":2,"etag":"e"}}`)
		case r.Method == http.MethodPost:
			respond(w, `{"result":{"id":"7","mediaId":"8"}}`)
		case n == 0:
			respondProblem(w, 503, "service-unavailable", `,"retryable":true`)
		default:
			w.Header().Set("ETag", `"x"`)
			w.Header().Set("Content-Type", "image/jpeg")
			w.WriteHeader(http.StatusPartialContent)
			fmt.Fprint(w, "bytes")
		}
	})
	media := s.client.Account("a").Media
	file, err := media.Download(t.Context(), "8", stagedoor.DownloadOptions{Quality: "thumb", Range: "bytes=5-"})
	if err != nil {
		t.Fatal(err)
	}
	defer file.Body.Close()
	if got, err := io.ReadAll(file.Body); err != nil || string(got) != "bytes" || file.Status != 206 || file.ETag != `"x"` || file.ContentType != "image/jpeg" {
		t.Errorf("%q, %+v, %v", got, file, err)
	}
	up, err := media.Upload(t.Context(), strings.NewReader(`"file"`), stagedoor.UploadOptions{FileName: "a b.jpg", ContentType: "image/jpeg"})
	if err != nil || *up.MediaID != "8" {
		t.Fatalf("%+v, %v", up, err)
	}
	part, err := media.UploadPart(t.Context(), "7", 2, io.MultiReader(bytes.NewReader([]byte(`"part"`))), 6)
	if err != nil || part.ETag != "e" {
		t.Fatalf("%+v, %v", part, err)
	}
	if _, err := media.Upload(t.Context(), io.MultiReader(), stagedoor.UploadOptions{FileName: "x"}); err == nil {
		t.Error("a file of unknown size was accepted")
	}
	if _, err := media.Fetch(t.Context(), "https://p/a?b=c", stagedoor.DownloadOptions{}); err != nil {
		t.Error(err)
	}
	all := s.requests()
	if all[1].path != "/v1/accounts/a/media/8" || all[1].query != "quality=thumb" || all[1].header.Get("Range") != "bytes=5-" {
		t.Errorf("%+v", all[1])
	}
	if all[2].query != "fileName=a+b.jpg" || all[2].header.Get("Content-Type") != "image/jpeg" || all[2].header.Get("Content-Length") != "6" || all[2].body != `"file"` {
		t.Errorf("%+v", all[2])
	}
	if all[3].path != "/v1/accounts/a/media/uploads/7/parts/2" || all[4].query != "url=https%3A%2F%2Fp%2Fa%3Fb%3Dc" {
		t.Errorf("%+v, %+v", all[3], all[4])
	}
}
