package stagedoor

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
)

// PutItems gives a bulk job its items and starts it. The job was started without items. It does not retry; the same items
// can be sent again.
func (s *JobsService) PutItems(ctx context.Context, jobID string, items []JobItem) (*Job, error) {
	var lines bytes.Buffer
	encoder := json.NewEncoder(&lines)
	for i := range items {
		if err := encoder.Encode(&items[i]); err != nil {
			return nil, err
		}
	}
	var response struct {
		Job *Job `json:"job"`
	}
	where := Request{Method: http.MethodPut, Path: "/v1/jobs/" + url.PathEscape(jobID) + "/items"}
	err := s.client.upload(ctx, where, &lines, int64(lines.Len()), "application/x-ndjson", &response)
	return response.Job, err
}

// GetResult returns the result of a job: a gzip file with one line of JSON per record. While the job runs, it ends with
// what is written so far; Range continues there. o.Quality has no effect.
func (s *JobsService) GetResult(ctx context.Context, jobID string, o DownloadOptions) (*File, error) {
	return s.client.download(ctx, "/v1/jobs/"+url.PathEscape(jobID)+"/result", nil, o)
}
