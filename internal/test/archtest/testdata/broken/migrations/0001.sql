CREATE TABLE org (
    id text
);

CREATE TABLE api_key (
    org_id text NOT NULL
);

CREATE TABLE unowned (
    id text
);
