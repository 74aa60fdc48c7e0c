# shellcheck shell=bash
# Provides the TypeScript library to programs that are not packages: blocks of the documentation, the examples.

tsc() { node "$root/web/node_modules/typescript-native/bin/tsc" "$@"; }

# Builds a separate copy, because another process may be writing client/typescript/dist.
typescript_library() {
  local at=$root/.dev/docs-check/typescript sum
  sum=$(cat client/typescript/package.json client/typescript/src/*.ts client/typescript/src/*/*.ts client/typescript/src/*/*/*.ts | sha256sum)
  if [ "$(cat "$at/sum" 2>/dev/null)" = "$sum" ]; then return; fi
  if [ ! -d web/node_modules/typescript-native ]; then scripts/web; fi
  rm -rf "$at"
  mkdir -p "$at"
  cp client/typescript/package.json "$at/"
  tsc -p client/typescript/tsconfig.json --rootDir client/typescript/src --outDir "$at/dist" || die "client/typescript does not build"
  echo "$sum" >"$at/sum"
}

# typescript_packages DIR: links the packages that a program in DIR can import.
typescript_packages() {
  typescript_library
  mkdir -p "$1/node_modules/@stagedoor" "$1/node_modules/@types"
  ln -sfn "$root/.dev/docs-check/typescript" "$1/node_modules/@stagedoor/client"
  ln -sfn "$root/web/node_modules/@types/node" "$1/node_modules/@types/node"
  ln -sfn "$root/web/node_modules/undici-types" "$1/node_modules/undici-types"
}
