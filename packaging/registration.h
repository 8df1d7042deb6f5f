// SPDX-License-Identifier: Apache-2.0
//
// What torch-ext/torch_binding.cpp needs to register itself when it is built by setup.py or
// `make kernel`. The Hub's builder generates a header of the same name and the same macros, so
// this one lies where the builder does not look.
#pragma once

#include <Python.h>

// torch's own macros paste their first argument, so a namespace that is itself a macro
// (TORCH_EXTENSION_NAME) has to be expanded by one more call.
#define STABLE_TORCH_LIBRARY_EXPAND(ns, m) STABLE_TORCH_LIBRARY(ns, m)
#define STABLE_TORCH_LIBRARY_IMPL_EXPAND(ns, key, m) STABLE_TORCH_LIBRARY_IMPL(ns, key, m)

// Makes the library an empty Python module called `name`: importing it runs the registrations.
#define REGISTER_EXTENSION(name) REGISTER_EXTENSION_EXPANDED(name)
#define REGISTER_EXTENSION_EXPANDED(name)                                                        \
  PyMODINIT_FUNC PyInit_##name() {                                                               \
    static PyModuleDef definition = {                                                            \
        PyModuleDef_HEAD_INIT, #name, nullptr, -1, nullptr, nullptr, nullptr, nullptr, nullptr}; \
    return PyModule_Create(&definition);                                                         \
  }
