-- owner: org
CREATE TABLE org (
    id text
);

-- owner: apikey
CREATE TABLE api_key (
    org_id text NOT NULL
);

CREATE TABLE nobody (
    id text
);
